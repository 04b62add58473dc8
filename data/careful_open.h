// Opens files for writing in folders where other users may have put something under the same name: a symbolic link is
// never followed, and the caller never blocks on a pipe. Checkpoints and reports use these functions, too, so they
// throw nothing: each returns a descriptor that is closed on exec, or -1 and sets errno.
#pragma once

#include <string>

namespace dtrain::data {

// Creates an empty file and opens it for writing. Removes an existing file, link, pipe or socket of that name first;
// leaves a folder or a device alone and fails with EEXIST.
int CreateAnew(const std::string& path);

// Opens the file, or creates it, with `flags` (O_RDWR, O_WRONLY | O_APPEND …). Fails with ELOOP if it is a symbolic
// link, EISDIR if it is a folder, ENXIO if it is a pipe, a socket or a device, and EMLINK if the file has another name
// (a hard link): whoever put it there would have this program change that file.
int OpenOrCreate(const std::string& path, int flags);

// Gives stdin, stdout and stderr a descriptor if the caller has closed them, so that no file gets one of theirs, and with
// it whatever is printed. Reading and writing still fail with EBADF. Called first, before any file is opened.
void OccupyStandardStreams();

}  // namespace dtrain::data
