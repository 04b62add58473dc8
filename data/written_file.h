// Writes files in folders where other users may have put something under the same name: a symbolic link is never
// followed, and the caller never blocks on a pipe. A file that must exist completely or not at all has a temporary name
// while it is written. If a signal ends the process, files under such names are removed: nothing else would do it,
// since they are hidden or unknown to the user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::data {

// ---- Opening ----
//
// Checkpoints and reports use these functions, too, so they throw nothing: each returns a descriptor that is closed on
// exec, or -1 and sets errno.

// Creates an empty file and opens it for writing. Removes an existing file, link, pipe or socket of that name first;
// leaves a folder or a device alone and fails with EEXIST.
int CreateAnew(const std::string& path);

// Opens the file, or creates it, with `flags` (O_RDWR, O_WRONLY | O_APPEND …). Fails with ELOOP if it is a symbolic
// link, EISDIR if it is a folder, ENXIO if it is a pipe, a socket or a device, and EMLINK if the file has another name
// (a hard link): whoever put it there would have this program change that file.
int OpenOrCreate(const std::string& path, int flags);

// Appends all bytes to a file that is open for appending. On an error it cuts off the part that was written, so that
// the next piece does not continue it, returns false and sets errno.
bool AppendWhole(int descriptor, std::string_view bytes);

// Whether `error_number` (errno) says that the file system, or the user's share of it, is full.
bool IsFull(int error_number);

// Returns an ending for a name that no other process takes, also of other machines and containers that write to one
// folder.
std::string OwnEnding(const std::string& word);

// Returns what to do about a file that could not be written because of `error_number` (errno); empty if that does not
// tell.
std::string HintOnWriting(int error_number);

// Gives stdin, stdout and stderr a descriptor if the caller has closed them, so that no file gets one of theirs, and
// with it whatever is printed. Reading and writing still fail with EBADF. Called first, before any file is opened.
void OccupyStandardStreams();

// ---- Files under a temporary name ----

// From now on SIGTERM, SIGINT and SIGHUP remove all unfinished files before they end the process as ever. Signals that
// the parent process has set to be ignored stay ignored. Called once, by programs that do not handle these signals
// themselves.
void RemoveUnfinishedFilesOnSignals();

// While it exists, the file is unfinished. Any thread. Of more than 1,024 at a time, the others are not removed.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(std::string path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

 private:
  const std::string path_;
  int slot_ = -1;
};

// The file is locked while it is written, so that of two processes that write one file, the second fails. All methods
// throw Error (exit code 5).
class PartialFile {
 public:
  explicit PartialFile(std::string path, const std::string& ending = ".partial");  // opens PATH.partial
  ~PartialFile();  // removes PATH.partial unless it was published
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& partial_path() const { return partial_path_; }
  uint64_t bytes() const { return bytes_; }
  void Append(std::string_view bytes);

  void Sync();     // writes everything appended to the disk
  void Publish();  // calls Sync and renames the file to PATH

 private:
  const std::string path_, partial_path_;
  int descriptor_;
  std::optional<UnfinishedFile> unfinished_;
  uint64_t bytes_ = 0;
};

// Writes a small file in one call.
void PublishFile(const std::string& path, std::string_view content, const std::string& ending = ".partial");

}  // namespace dtrain::data
