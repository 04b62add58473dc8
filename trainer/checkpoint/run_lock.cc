#include "trainer/checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "data/written_file.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(50), kPatience = std::chrono::milliseconds(1000);

std::string ThisProcess() {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  return "process " + std::to_string(::getpid()) + " on host " + host;
}

std::string HolderIn(int descriptor) {
  char text[512];
  const ssize_t got = ::pread(descriptor, text, sizeof(text), 0);
  std::string holder(text, got > 0 ? static_cast<size_t>(got) : 0);
  holder = holder.substr(0, holder.find('\n'));
  return holder.empty() ? "another process" : holder;
}

bool LocksAreUnknown(int error_number) {
  return error_number == ENOLCK || error_number == ENOSYS || error_number == EOPNOTSUPP;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_directory, const KeepsWaiting& keeps_waiting) : RunLock() {
  const std::filesystem::path path = run_directory / "lock";
  descriptor_ = data::OpenOrCreate(path, O_RDWR);
  if (descriptor_ < 0) ThrowSystemError("open", path, errno);

  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (LocksAreUnknown(errno)) {
      warning_ = "the file system of " + run_directory.string() +
                 " has no locks: nothing keeps a second job from writing into this run directory";
      return;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) ThrowSystemError("lock", path, errno);
    if (std::chrono::steady_clock::now() >= deadline) {
      const std::string why = "the run directory " + run_directory.string() + " is in use by " + HolderIn(descriptor_);
      if (!keeps_waiting || !keeps_waiting(why))
        throw StorageError(why, "wait for that job or stop it, or choose another --run_dir");
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  const std::string holder = ThisProcess() + "\n";  // for the error message of a second process
  const bool written = ::ftruncate(descriptor_, 0) == 0 &&
                       ::pwrite(descriptor_, holder.data(), holder.size(), 0) == static_cast<ssize_t>(holder.size());
  if (!written) ThrowSystemError("write", path, errno);
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace dtrain::checkpoint
