// Scans record files for their index. Damaged records are indexed, too, in their places, so that one bad length neither
// loses the rest of a file nor changes the numbers of the records behind it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/formats/record_format.h"
#include "data/formats/record_index.h"

namespace dtrain::data {

// Returns the records of one file, with IndexEntry::file left 0. `known` is what an earlier index (or an .idx) says of
// the same file, in file order; after a damaged record the next one is first looked for there. A damaged record becomes
// an entry with label −1 (or the known label) that ends where the next intact record begins. Throws DataError if an
// intact record lacks image or label, or if no record of the file is intact.
std::vector<IndexEntry> ScanRecords(const RecordFormat& format, const ReadableBytes& file, const std::string& path,
                                    std::span<const IndexEntry> known);

}  // namespace dtrain::data
