#include "data/formats/recordio_index.h"

#include <algorithm>
#include <sstream>

#include "data/error.h"
#include "data/formats/text_beside.h"

namespace dtrain::data {

std::vector<IndexEntry> ReadRecordIoIndex(const std::string& rec_path, uint64_t rec_bytes) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // enough for tens of millions of records
  try {
    std::istringstream text(TextBeside(rec_path.substr(0, rec_path.size() - 4) + ".idx", kMostBytes));
    return ParseRecordIoIndex(text, rec_bytes);
  } catch (const DataError&) {  // the records are then found without it
    return {};
  }
}

std::vector<IndexEntry> ParseRecordIoIndex(std::istream& text, uint64_t rec_bytes) {
  std::vector<uint64_t> offsets;
  std::string key;
  for (uint64_t offset = 0; text >> key >> offset;) offsets.push_back(offset);
  std::sort(offsets.begin(), offsets.end());
  const bool fits = !offsets.empty() && offsets.front() == 0 && offsets.back() < rec_bytes &&
                    std::adjacent_find(offsets.begin(), offsets.end()) == offsets.end();
  if (!fits) return {};
  std::vector<IndexEntry> entries;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const uint64_t end = i + 1 < offsets.size() ? offsets[i + 1] : rec_bytes;
    entries.push_back({offsets[i], end - offsets[i], 0, -1});
  }
  return entries;
}

}  // namespace dtrain::data
