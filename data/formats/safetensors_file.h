// Reads a safetensors file without trusting it: every number of the header is checked against the file's size before
// anything is allocated or read. The format is an 8-byte little-endian header length, a JSON header, then the tensors'
// bytes without holes: https://github.com/huggingface/safetensors#format
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/storage.h"

namespace dtrain::data {

struct SafetensorsEntry {
  std::string dtype;           // as in the header: F32, BF16, I64, U8, BOOL, …
  std::vector<int64_t> shape;  // empty for a scalar
  uint64_t begin = 0;          // bytes, from the start of the data section
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

// Returns the bytes of one element; empty if the dtype is unknown.
std::optional<int64_t> SafetensorsElementSize(std::string_view dtype);

// An open file. Const methods are safe to call from many threads at once.
class SafetensorsFile {
 public:
  // Opens the file and parses and checks its header. Throws DataError, which names the file and what is wrong with it.
  explicit SafetensorsFile(const std::string& path);

  const std::map<std::string, SafetensorsEntry>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return file_.path(); }
  uint64_t data_bytes() const { return data_bytes_; }    // size of the data section
  uint64_t data_offset() const { return data_offset_; }  // offset of the data section in the file

  // Copies `size` bytes at `begin` (bytes from the start of the data section) to `destination`. Throws DataError if
  // they are outside the data section, the file has been shortened since, or it cannot be read.
  void Read(uint64_t begin, uint64_t size, void* destination) const;

 private:
  RandomAccessFile file_;
  std::map<std::string, SafetensorsEntry> tensors_;
  std::map<std::string, std::string> metadata_;
  uint64_t data_offset_ = 0;
  uint64_t data_bytes_ = 0;
};

}  // namespace dtrain::data
