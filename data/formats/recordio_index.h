// MXNet's .idx beside a .rec: "KEY<tab>OFFSET" a line. Only a help in damaged files here: our own index is made from
// the records themselves, so a missing or outdated .idx does no harm.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "data/formats/record_index.h"

namespace dtrain::data {

// Where the records of `rec_path` (FILE.rec) begin according to FILE.idx, in file order, labels unknown. Empty where
// there is none, or where it does not fit a file of `rec_bytes` bytes.
std::vector<IndexEntry> ReadRecordIoIndex(const std::string& rec_path, uint64_t rec_bytes);

// The same from the text of an .idx.
std::vector<IndexEntry> ParseRecordIoIndex(std::istream& text, uint64_t rec_bytes);

}  // namespace dtrain::data
