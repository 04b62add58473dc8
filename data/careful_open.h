// Opening files to write where others may have put something under their names: a symbolic link is never followed, and
// a pipe never waited for. No DataError here, since checkpoints and reports are written through it, too: each function
// returns a descriptor that is closed on exec, or -1 with errno.
#pragma once

#include <string>

namespace dtrain::data {

// A new, empty file to write to. A file, link, pipe or socket of that name is removed first; a folder or a device is
// left alone (EEXIST).
int CreateAnew(const std::string& path);

// The file of that name, or a new one, with `flags` (O_RDWR, O_WRONLY | O_APPEND …). ELOOP: it is a symbolic link.
// ENXIO: it is no regular file.
int OpenOrCreate(const std::string& path, int flags);

}  // namespace dtrain::data
