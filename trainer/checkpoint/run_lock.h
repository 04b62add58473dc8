// One job per run directory: an flock on <run_dir>/lock. The kernel drops it with its holder, however that dies, so
// there is no stale lock to clean up after a crash.
#pragma once

#include <filesystem>
#include <string>

namespace dtrain::checkpoint {

class RunLock {
 public:
  // Takes the lock of an existing run directory, trying for `patience_seconds` (a job restarted at once may meet its
  // dying predecessor). Throws StorageError, naming host and pid of the holder, when another process keeps it, or when
  // the lock file cannot be written.
  explicit RunLock(const std::filesystem::path& run_directory, double patience_seconds = 1);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Not empty where the file system knows no locks (Lustre mounted without `flock`): the run goes on unprotected, and
  // this is the sentence to log.
  const std::string& warning() const { return warning_; }

 private:
  RunLock() = default;

  int descriptor_ = -1;
  std::string warning_;
};

}  // namespace dtrain::checkpoint
