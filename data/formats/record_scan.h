// From record files to an index: every record in its place, damaged ones too, so that one bad length neither loses the
// rest of a file nor moves the numbers of the records behind it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/formats/record_format.h"
#include "data/formats/record_index.h"

namespace dtrain::data {

// The records of one file, `file` in each entry left 0. `known`: what an earlier index (or an .idx) says of the same
// file, in file order; where a record is damaged, the one behind it is looked for there first. A damaged record becomes
// an entry with label −1 (or the known one) that ends where the next intact record begins. Throws DataError where
// intact records lack image or label, or where nothing in the file is intact.
std::vector<IndexEntry> ScanRecords(const RecordFormat& format, const ReadableBytes& file, const std::string& path,
                                    std::span<const IndexEntry> known);

}  // namespace dtrain::data
