#include "data/written_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
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
  EndBySignal(signal);
}

[[noreturn]] void FailToWrite(const std::string& path) {
  const int reason = errno;
  const std::string hint = HintOnWriting(reason);
  throw Error(ExitCode::kStorage, "cannot write " + path + ": " + std::strerror(reason),
              (hint.empty() ? "choose another place to write to" : hint) + "; then run the same command again");
}

// False only if another process has locked the file: some network file systems have no locks.
bool Lock(int descriptor) { return flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

// Whether `path` is a name of the open regular file.
bool Names(const std::string& path, int descriptor) {
  struct stat named {};
  struct stat opened {};
  return lstat(path.c_str(), &named) == 0 && fstat(descriptor, &opened) == 0 && S_ISREG(named.st_mode) &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

// Creates the file and locks it. What a process that is gone has left under this name is removed, as CreateAnew does;
// returns -1 with EBUSY if a process is still writing it. Whoever removes or renames the file has its lock, so that no
// process touches that of another one.
int CreateLocked(const std::string& path) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int there = open(path.c_str(), O_WRONLY | kFlags);
    if (there < 0 && errno == EACCES) there = open(path.c_str(), O_RDONLY | kFlags);  // another user's
    const bool is_link = there < 0 && (errno == ELOOP || errno == ENXIO);             // or a pipe, or a socket
    if (there < 0 && !is_link && errno != ENOENT) return -1;
    const bool is_free = there < 0 || Lock(there);
    if (is_link || (there >= 0 && is_free && Names(path, there))) unlink(path.c_str());
    if (there >= 0) close(there);
    if (!is_free) break;
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
    if (descriptor < 0 && errno != EEXIST) return -1;
    if (descriptor >= 0 && Lock(descriptor) && Names(path, descriptor)) return descriptor;
    if (descriptor >= 0) close(descriptor);
  }
  errno = EBUSY;
  return -1;
}

int OpenPartial(const std::string& path) {
  const int descriptor = CreateLocked(path);
  if (descriptor < 0) FailToWrite(path);
  return descriptor;
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

bool AppendWhole(int descriptor, std::string_view bytes) {
  off_t done = 0;
  for (ssize_t count = 0; !bytes.empty(); bytes.remove_prefix(static_cast<size_t>(count)), done += count) {
    do {
      count = write(descriptor, bytes.data(), bytes.size());
    } while (count < 0 && errno == EINTR);
    if (count > 0) continue;
    const int reason = errno;
    struct stat status {};
    if (done > 0 && fstat(descriptor, &status) == 0) {
      [[maybe_unused]] const int best_effort = ftruncate(descriptor, status.st_size - done);
    }
    errno = reason;
    return false;
  }
  return true;
}

std::string OwnEnding(const std::string& word) {
  // Containers may share the name of their host, and each has a process 1.
  std::random_device random;
  return word + "." + std::to_string(random()) + std::to_string(random());
}

bool IsFull(int error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

std::string HintOnWriting(int error_number) {
  if (IsFull(error_number)) return "free some space (or quota), or write elsewhere";
  switch (error_number) {
    case EROFS:
    case EACCES:
    case EPERM:
      return "choose a folder that this user can write to";
    case EIO:
      return "the disk or its file system is failing: see dmesg, and write elsewhere";
    case EFBIG:
      return "the file is larger than ulimit -f or the file system allows: raise the limit, or write elsewhere";
    case EBUSY:
      return "another process is writing it: wait for that one, or end it";
    case ELOOP:
    case ENXIO:
      return "a symbolic link, a pipe or a device has this name: remove it, or choose another name";
    case EMLINK:
      return "it is a hard link, so another file would be changed, too: remove it, or choose another name";
    case EISDIR:
    case ENOTDIR:
    case EEXIST:
    case ENOTEMPTY:
      return "something of another kind has this name, or that of its folder: remove it, or choose another name";
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
  const auto handle = [](int signal) {
    if (!IsIgnored(signal)) HandleSignal(signal, &OnSignal);
  };
  std::ranges::for_each(kStopSignals, handle);
  handle(SIGHUP);
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
    : path_(std::move(path)), partial_path_(path_ + ending), descriptor_(OpenPartial(partial_path_)) {
  unfinished_.emplace(partial_path_);
}

PartialFile::~PartialFile() {
  if (descriptor_ < 0) return;
  if (Names(partial_path_, descriptor_)) unlink(partial_path_.c_str());
  close(descriptor_);
}

void PartialFile::Append(std::string_view bytes) {
  bytes_ += bytes.size();
  if (!AppendWhole(descriptor_, bytes)) FailToWrite(partial_path_);
}

void PartialFile::Sync() {
  if (fsync(descriptor_) != 0) FailToWrite(partial_path_);
}

void PartialFile::Publish() {
  Sync();
  if (!Names(partial_path_, descriptor_)) {
    errno = EBUSY;
    FailToWrite(partial_path_);
  }
  if (rename(partial_path_.c_str(), path_.c_str()) != 0) FailToWrite(path_);
  unfinished_.reset();
  close(std::exchange(descriptor_, -1));
}

void PublishFile(const std::string& path, std::string_view content, const std::string& ending) {
  PartialFile file(path, ending);
  file.Append(content);
  file.Publish();
}

}  // namespace dtrain::data
