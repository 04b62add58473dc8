// The temporary name of a file that is being written. If a signal ends the process, the file is removed: nothing else
// would do it, since the name is hidden or unknown to the user.
#pragma once

#include <string>

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

}  // namespace dtrain::data
