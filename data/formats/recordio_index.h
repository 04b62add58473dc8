// MXNet's .idx beside a .rec: one "KEY<tab>OFFSET" per line. It only helps to find records in damaged files: dtrain's
// own index is made from the records themselves, so a missing or outdated .idx does no harm.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "data/formats/record_index.h"

namespace dtrain::data {

// Returns where the records of `rec_path` (FILE.rec) begin according to FILE.idx, in file order and without labels.
// Empty if there is no FILE.idx or it does not fit a file of `rec_bytes` bytes. Throws nothing: a FILE.idx that cannot
// be read is ignored.
std::vector<IndexEntry> ReadRecordIoIndex(const std::string& rec_path, uint64_t rec_bytes);

// The same, from the text of an .idx.
std::vector<IndexEntry> ParseRecordIoIndex(std::istream& text, uint64_t rec_bytes);

}  // namespace dtrain::data
