// Helpers for tests of record formats. Where it matters, the bytes of record files are made from the formats'
// descriptions rather than by the code under test.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/error.h"
#include "data/formats/record_format.h"
#include "data/storage.h"
#include "tests/message_of.h"

namespace dtrain::data {

inline std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

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

// Reads `file` cut at every length and with a bit flipped in every byte. Each of these must give an error or a result
// (the sanitizers would report anything else). Returns the number of errors.
inline int DamageEverywhere(const RecordFormat& format, const std::string& file) {
  int noticed = 0;
  const auto try_all = [&](const std::string& damaged) {
    try {
      ReadAll(format, damaged);
      const MemoryBytes bytes(AsBytes(damaged));
      format.FindRecord(bytes, 1);
    } catch (const DataError&) {
      ++noticed;
    }
  };
  for (size_t i = 0; i < file.size(); ++i) {
    try_all(file.substr(0, i));
    std::string flipped = file;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    try_all(flipped);
  }
  return noticed;
}

}  // namespace dtrain::data
