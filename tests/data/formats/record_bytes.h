// Helpers for tests of record formats. Where it matters, the bytes of record files are made from the formats'
// descriptions rather than by the code under test.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/error.h"
#include "data/formats/record_format.h"
#include "data/storage.h"
#include "tests/message_of.h"

namespace dtrain::data {

inline std::vector<uint8_t> ToVector(std::string_view text) { return {AsBytes(text).begin(), AsBytes(text).end()}; }

inline std::string ToString(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// All records of a file: their labels, and their images as text.
struct Records {
  std::vector<int64_t> labels;
  std::vector<std::string> images;
};

inline Records ReadAll(const RecordFormat& format, std::string_view file) {
  Records records;
  const MemoryBytes bytes(AsBytes(file));
  uint64_t offset = 0;
  while (const auto record = format.Scan(bytes, offset)) {
    records.labels.push_back(record->label);
    records.images.push_back(ToString(format.Image(ToVector(file.substr(record->begin, record->end - record->begin)))));
    offset = record->end;
  }
  return records;
}

}  // namespace dtrain::data
