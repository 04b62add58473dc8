#include "data/formats/label_offset.h"

#include <algorithm>

#include "data/error.h"

namespace dtrain::data {

namespace {

std::vector<int64_t> Distinct(std::vector<int64_t> labels) {
  std::erase(labels, -1);
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

}  // namespace

std::optional<int64_t> LabelOffsetOf(std::vector<int64_t> labels) {
  labels = Distinct(std::move(labels));
  if (labels.empty()) return 0;
  const bool gapless = labels.back() - labels.front() + 1 == static_cast<int64_t>(labels.size());
  if (!gapless || labels.front() < 0 || labels.front() > 1) return std::nullopt;
  return labels.front();
}

int64_t ResolveLabelOffset(std::vector<int64_t> labels, std::optional<int64_t> said,
                           const std::function<std::string(int64_t label)>& where_is) {
  labels = Distinct(std::move(labels));
  if (labels.empty()) return said.value_or(0);
  if (said) {
    if (labels.front() >= *said) return *said;
    throw DataError(where_is(labels.front()) + ": label " + std::to_string(labels.front()) +
                        " where --label_offset=" + std::to_string(*said) + " says that labels start there",
                    "leave --label_offset out, or say what the first class is called");
  }
  if (const auto offset = LabelOffsetOf(labels)) return *offset;
  // The first label behind a gap, or the lowest where that one is too high.
  auto odd = std::adjacent_find(labels.begin(), labels.end(), [](int64_t a, int64_t b) { return b != a + 1; });
  odd = odd == labels.end() || labels.front() > 1 ? labels.begin() : odd + 1;
  throw DataError(where_is(*odd) + ": label " + std::to_string(*odd) + "; the " + std::to_string(labels.size()) +
                      " different labels, from " + std::to_string(labels.front()) + " to " +
                      std::to_string(labels.back()) + ", are neither 0 to C-1 nor 1 to C without gaps",
                  "say what the first class is called: --label_offset=0 or --label_offset=1");
}

}  // namespace dtrain::data
