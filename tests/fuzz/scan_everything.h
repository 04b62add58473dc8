// Indexes bytes as a record file and reads every record, as training does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/formats/packed_records.h"
#include "tests/fuzz/fuzz_input.h"

namespace dtrain::fuzz {

// Requires that the entries lie in the file, in order and without overlaps. If nothing of the file is `known`, a record
// that was found intact must also be readable.
inline void ScanEverything(const data::RecordFormat& format, std::span<const uint8_t> file,
                           std::span<const data::IndexEntry> known = {},
                           data::LabelKind kind = data::LabelKind::kClass) {
  for (const data::LabelKind other : {data::LabelKind::kSeveral, data::LabelKind::kNumbers}) {
    if (kind == data::LabelKind::kClass && format.Holds(other)) ScanEverything(format, file, known, other);
  }
  const data::MemoryBytes bytes(file);
  std::vector<data::IndexEntry> entries;
  std::vector<float> values;
  try {
    entries = data::ScanRecords(format, bytes, "input", known, kind, &values);
  } catch (const DataError&) {
    return;
  }
  uint64_t end = 0;
  for (const data::IndexEntry& entry : entries) {
    Require(entry.offset >= end && entry.offset <= file.size() && entry.bytes <= file.size() - entry.offset,
            "an index entry overlaps or leaves the file");
    end = entry.offset + entry.bytes;
    const auto record = file.subspan(entry.offset, entry.bytes);
    bool is_read = true;
    try {
      format.Image({record.begin(), record.end()});
    } catch (const DataError&) {
      is_read = false;
    }
    Require(is_read || entry.label < 0 || !known.empty(), "a record that was found intact cannot be read");
  }
}

}  // namespace dtrain::fuzz
