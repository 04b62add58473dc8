// Files that exist completely or not at all: a file that is being written has a temporary name. If a signal ends the
// process, files under such names are removed: nothing else would do it, since they are hidden or unknown to the user.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain::data {

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

// All methods throw Error (exit code 5).
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
  const UnfinishedFile unfinished_;
  int descriptor_;
  uint64_t bytes_ = 0;
};

// Writes a small file in one call.
void PublishFile(const std::string& path, std::string_view content);

}  // namespace dtrain::data
