// A file that is read at given positions. It uses pread rather than mmap, so that a file that another process shortens
// causes an error that can be reported rather than SIGBUS.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/readable_bytes.h"

namespace dtrain::data {

// Owns a file descriptor. Const methods are safe to call from many threads at once.
class RandomAccessFile : public ReadableBytes {
 public:
  // Opens a regular file. Throws DataError, which names the file and the system's reason.
  explicit RandomAccessFile(const std::string& path);
  ~RandomAccessFile() override;
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const override { return size_; }  // bytes, at the time of opening

  // Reads exactly `size` bytes from `offset` on. Throws DataError on an I/O error or if the file ends earlier.
  void Read(uint64_t offset, uint64_t size, void* destination) const override;

 private:
  std::string path_;
  int descriptor_;
  uint64_t size_;
};

// Returns the content of a file. Throws DataError if it cannot be read or, before anything is read, if it has more than
// `most` bytes.
std::vector<uint8_t> ReadWholeFile(const std::string& path, uint64_t most = UINT64_MAX);

}  // namespace dtrain::data
