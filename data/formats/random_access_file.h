// A file that is read at positions, with pread rather than mmap: a file that shrinks under us is then an error that can
// be reported, not a SIGBUS.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/readable_bytes.h"

namespace dtrain::data {

// Owns a descriptor. Const methods are safe to call from many threads at once.
class RandomAccessFile : public ReadableBytes {
 public:
  // Opens a regular file. Throws DataError naming the file and the system's reason.
  explicit RandomAccessFile(const std::string& path);
  ~RandomAccessFile() override;
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const override { return size_; }  // bytes, when it was opened

  // Exactly `size` bytes from `offset`. Throws DataError on an I/O error or where the file ends before.
  void Read(uint64_t offset, uint64_t size, void* destination) const override;

 private:
  std::string path_;
  int descriptor_;
  uint64_t size_;
};

// The whole file. Throws DataError, also, before anything is read, where it has more than `most` bytes.
std::vector<uint8_t> ReadWholeFile(const std::string& path, uint64_t most = UINT64_MAX);

}  // namespace dtrain::data
