#include "data/formats/label_offset.h"

#include <algorithm>

#include "data/error.h"

namespace dtrain::data {

int64_t ResolveLabelOffset(std::vector<int64_t> labels, std::optional<int64_t> said, const std::string& where) {
  std::erase(labels, -1);
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  if (labels.empty()) return said.value_or(0);
  const int64_t lowest = labels.front(), highest = labels.back();
  if (said) {
    if (lowest >= *said) return *said;
    throw DataError(where + ": label " + std::to_string(lowest) + " where --label_offset=" + std::to_string(*said) +
                    " says that labels start there");
  }
  const bool gapless = highest - lowest + 1 == static_cast<int64_t>(labels.size());
  if (gapless && lowest <= 1) return lowest;
  throw DataError(where + ": its " + std::to_string(labels.size()) + " different labels, from " +
                      std::to_string(lowest) + " to " + std::to_string(highest) +
                      ", are neither 0 to C-1 nor 1 to C without gaps",
                  "say what the first class is called: --label_offset=0 or --label_offset=1");
}

}  // namespace dtrain::data
