#include "data/written_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "data/error.h"
#include "data/signals.h"

namespace dtrain::data {
namespace {

constexpr mode_t kMode = 0644;
constexpr int kAttempts = 3;  // another process may create the file between unlink and open

// The signal handler may call only unlink and the like, so it reads the names from a table of fixed size without locks.
std::array<std::atomic<const char*>, 1024> unfinished{};
std::atomic<bool> is_ending = false;
static_assert(std::atomic<const char*>::is_always_lock_free, "a signal handler may not wait for a lock");

void OnSignal(int signal) {
  is_ending = true;
  for (const auto& slot : unfinished) {
    if (const char* const path = slot) unlink(path);
  }
  std::signal(signal, SIG_DFL);
  raise(signal);  // is delivered when the handler returns
}

[[noreturn]] void FailToWrite(const std::string& path) {
  const int reason = errno;
  const std::string hint = HintOnWriting(reason);
  throw Error(ExitCode::kStorage, "cannot write " + path + ": " + std::strerror(reason),
              (hint.empty() ? "choose another place to write to" : hint) + "; then run the same command again");
}

}  // namespace

int CreateAnew(const std::string& path) {
  int descriptor = -1;
  for (int attempt = 0; attempt < kAttempts && descriptor < 0; ++attempt) {
    struct stat status {};
    const bool exists = lstat(path.c_str(), &status) == 0;
    const mode_t type = status.st_mode & S_IFMT;
    const bool removable = type == S_IFREG || type == S_IFLNK || type == S_IFIFO || type == S_IFSOCK;
    if (exists && removable && unlink(path.c_str()) != 0 && errno != ENOENT) return -1;
    descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
    if (descriptor < 0 && errno != EEXIST) return -1;
  }
  return descriptor;
}

int OpenOrCreate(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kMode);
  if (descriptor < 0) return -1;
  struct stat status {};
  const bool is_regular = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (is_regular && status.st_nlink <= 1) return descriptor;
  close(descriptor);
  errno = is_regular ? EMLINK : ENXIO;
  return -1;
}

std::string HintOnWriting(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free some space (or quota), or write elsewhere";
    case EROFS:
    case EACCES:
    case EPERM:
      return "choose a folder that this user can write to";
    case EIO:
      return "the disk or its file system is failing: see dmesg, and write elsewhere";
    case EFBIG:
      return "the file is larger than ulimit -f or the file system allows: raise the limit, or write elsewhere";
    case ELOOP:
    case ENXIO:
      return "a symbolic link, a pipe or a device has this name: remove it, or choose another name";
    case EMLINK:
      return "it is a hard link, so another file would be changed, too: remove it, or choose another name";
    default:
      return "";
  }
}

void OccupyStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is this stream's. The direction is the one that nobody uses.
    [[maybe_unused]] const int descriptor = open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void RemoveUnfinishedFilesOnSignals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    if (!IsIgnored(signal)) HandleSignal(signal, &OnSignal);
  }
}

UnfinishedFile::UnfinishedFile(std::string path) : path_(std::move(path)) {
  for (size_t i = 0; i < unfinished.size() && slot_ < 0; ++i) {
    const char* free = nullptr;
    if (unfinished[i].compare_exchange_strong(free, path_.c_str())) slot_ = static_cast<int>(i);
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (slot_ >= 0) unfinished[static_cast<size_t>(slot_)] = nullptr;
  while (is_ending) pause();  // the handler, on another thread, may be reading path_
}

PartialFile::PartialFile(std::string path, const std::string& ending)
    : path_(std::move(path)),
      partial_path_(path_ + ending),
      unfinished_(partial_path_),
      descriptor_(CreateAnew(partial_path_)) {
  if (descriptor_ < 0) FailToWrite(partial_path_);
}

PartialFile::~PartialFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(partial_path_.c_str());
}

void PartialFile::Append(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) FailToWrite(partial_path_);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void PartialFile::Sync() {
  if (fsync(descriptor_) != 0) FailToWrite(partial_path_);
}

void PartialFile::Publish() {
  Sync();
  if (close(std::exchange(descriptor_, -1)) != 0 || rename(partial_path_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    unlink(partial_path_.c_str());
    errno = reason;
    FailToWrite(path_);
  }
}

void PublishFile(const std::string& path, std::string_view content, const std::string& ending) {
  PartialFile file(path, ending);
  file.Append(content);
  file.Publish();
}

}  // namespace dtrain::data
