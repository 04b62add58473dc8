#include "data/formats/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "data/error.h"

namespace dtrain::data {

RandomAccessFile::RandomAccessFile(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), size_(0) {
  // With O_NONBLOCK, opening a named pipe does not block; it is refused below.
  if (descriptor_ < 0) throw DataError("cannot open " + path + ": " + std::strerror(errno));
  struct stat status {};
  std::string problem;
  if (fstat(descriptor_, &status) != 0) {
    problem = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    problem = S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file";
  }
  if (!problem.empty()) {
    close(descriptor_);
    throw DataError("cannot read " + path + ": " + problem);
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

RandomAccessFile::~RandomAccessFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

void RandomAccessFile::Read(uint64_t offset, uint64_t size, void* destination) const {
  auto* next = static_cast<char*>(destination);
  while (size > 0) {
    const ssize_t got = pread(descriptor_, next, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw DataError("cannot read " + path_ + " at byte " + std::to_string(offset) + ": " + std::strerror(errno));
    }
    if (got == 0) {
      throw DataError(path_ + " ends at byte " + std::to_string(offset) + ", " + std::to_string(size) +
                      " bytes too early");
    }
    next += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<uint64_t>(got);
  }
}

std::vector<uint8_t> ReadWholeFile(const std::string& path, uint64_t most) {
  const RandomAccessFile file(path);
  if (file.size() > most) {
    throw DataError(path + " has " + std::to_string(file.size()) + " bytes, more than the limit of " +
                    std::to_string(most));
  }
  std::vector<uint8_t> bytes(file.size());
  file.Read(0, bytes.size(), bytes.data());
  return bytes;
}

}  // namespace dtrain::data
