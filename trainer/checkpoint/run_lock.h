// Lets only one job at a time use a run directory: an flock on <run_dir>/lock. The kernel releases it when its holder
// dies, in whatever way, so there is no stale lock to clean up after a crash.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace dtrain::checkpoint {

class RunLock {
 public:
  // Says whether to wait on for another process, which the sentence `why` names with its host.
  using KeepsWaiting = std::function<bool(const std::string& why)>;

  // Takes the lock of an existing run directory. Tries for a second, since the predecessor of a job that was restarted
  // at once may still be dying, then for as long as `keeps_waiting`, if there is one, says so. Throws StorageError if
  // another process keeps the lock or the lock file cannot be written.
  explicit RunLock(const std::filesystem::path& run_directory, const KeepsWaiting& keeps_waiting = nullptr);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // The sentence to log if the file system has no locks (Lustre mounted without `flock`) and the run goes on
  // unprotected; otherwise empty.
  const std::string& warning() const { return warning_; }

 private:
  RunLock() = default;

  int descriptor_ = -1;
  std::string warning_;
};

}  // namespace dtrain::checkpoint
