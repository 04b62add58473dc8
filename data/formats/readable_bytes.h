// The input of a parser: a file, or bytes in memory. All parsers of record files take this interface, so that the same
// code scans a file, parses a record that was read, and is tested and fuzzed without a file.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "data/error.h"

namespace dtrain::data {

class ReadableBytes {
 public:
  virtual ~ReadableBytes() = default;
  virtual uint64_t size() const = 0;
  // Reads exactly `size` bytes from `offset` on. Throws DataError if there are fewer.
  virtual void Read(uint64_t offset, uint64_t size, void* destination) const = 0;
};

// Bytes that belong to the caller and must outlive this object.
class MemoryBytes : public ReadableBytes {
 public:
  explicit MemoryBytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void Read(uint64_t offset, uint64_t size, void* destination) const override {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      throw DataError("the record ends before byte " + std::to_string(offset + size));
    }
    if (size > 0) std::memcpy(destination, bytes_.data() + offset, size);
  }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace dtrain::data
