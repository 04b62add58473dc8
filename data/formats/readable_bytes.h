// What a parser reads from: a file, or bytes in memory. Parsers of record files take this, so that the same code scans
// a file, parses a record that was read, and is tested and fuzzed without a file.
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
  // Exactly `size` bytes from `offset`. Throws DataError where there are fewer.
  virtual void Read(uint64_t offset, uint64_t size, void* destination) const = 0;
};

// Bytes that belong to the caller.
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
