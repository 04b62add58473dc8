#include "data/careful_open.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace dtrain::data {
namespace {

constexpr mode_t kMode = 0644;
constexpr int kAttempts = 3;  // another process may create the file between unlink and open

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

void OccupyStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is this stream's. The direction is the one that nobody uses.
    [[maybe_unused]] const int descriptor = open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace dtrain::data
