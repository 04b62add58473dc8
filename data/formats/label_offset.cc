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

namespace {

using WhereIs = std::function<std::string(int64_t label)>;

constexpr char kSayOffset[] = "give the label of the first class: --label_offset=0 or --label_offset=1";

// Here and below, `labels` are distinct and sorted.
int64_t GuessFromLabels(const std::vector<int64_t>& labels, const WhereIs& where_is) {
  if (const auto offset = LabelOffsetOf(labels)) return *offset;
  // For the message: the first label behind a gap, or the lowest label if that is above 1.
  auto odd = std::adjacent_find(labels.begin(), labels.end(), [](int64_t a, int64_t b) { return b != a + 1; });
  odd = odd == labels.end() || labels.front() > 1 ? labels.begin() : odd + 1;
  throw DataError(where_is(*odd) + ": label " + std::to_string(*odd) + "; the " + std::to_string(labels.size()) +
                      " different labels, from " + std::to_string(labels.front()) + " to " +
                      std::to_string(labels.back()) + ", are neither 0 to C-1 nor 1 to C without gaps",
                  kSayOffset);
}

// The error of the first label that is behind the last of `count` classes.
DataError Beyond(const std::vector<int64_t>& labels, int64_t count, int64_t offset, const WhereIs& where_is) {
  const int64_t beyond = *std::lower_bound(labels.begin(), labels.end(), count + offset);
  return DataError(where_is(beyond) + ": label " + std::to_string(beyond) + " is outside the " + std::to_string(count) +
                       " classes, whose labels are " + std::to_string(offset) + " to " +
                       std::to_string(count + offset - 1),
                   "all splits must have the training split's classes; --label_offset is the label of the first class, "
                   "and classes.txt, if there is one, must name one class per line");
}

// A part of a set may lack the first or the last class, so an offset is taken only if the other one is impossible.
int64_t GuessFromCount(const std::vector<int64_t>& labels, int64_t count, const WhereIs& where_is) {
  const bool from_0 = labels.back() < count;
  const bool from_1 = labels.front() >= 1 && labels.back() <= count;
  if (from_0 != from_1) return from_0 ? 0 : 1;
  if (!from_0) throw Beyond(labels, count, 0, where_is);
  throw DataError(where_is(labels.front()) + ": labels from " + std::to_string(labels.front()) + " to " +
                      std::to_string(labels.back()) + " for " + std::to_string(count) +
                      " classes may count from 0 or from 1",
                  kSayOffset);
}

void RequireLabelsIn(const Classes& classes, bool from_user, const std::vector<int64_t>& labels,
                     const WhereIs& where_is) {
  const int64_t offset = *classes.label_offset;
  if (labels.front() < offset) {
    const std::string text = std::to_string(offset);
    throw DataError(where_is(labels.front()) + ": label " + std::to_string(labels.front()) +
                        (from_user ? " is below the first label, --label_offset=" + text
                                   : " is below the first label of the training split, " + text),
                    from_user ? "leave --label_offset out, or give the label of the first class with it"
                              : "both splits need the same classes; --label_offset is the label of the first one");
  }
  if (classes.count > 0 && labels.back() - offset >= classes.count)
    throw Beyond(labels, classes.count, offset, where_is);
}

}  // namespace

Classes ResolveLabels(std::vector<int64_t> labels, std::optional<int64_t> user_offset, Classes known,
                      const WhereIs& where_is) {
  labels = Distinct(std::move(labels));
  if (user_offset) known.label_offset = user_offset;
  if (labels.empty()) {
    known.label_offset = known.label_offset.value_or(0);
    return known;
  }
  if (!known.label_offset) {
    known.label_offset =
        known.count > 0 ? GuessFromCount(labels, known.count, where_is) : GuessFromLabels(labels, where_is);
  }
  RequireLabelsIn(known, user_offset.has_value(), labels, where_is);
  if (known.count == 0) known.count = labels.back() + 1 - *known.label_offset;
  return known;
}

Classes WithNames(Classes known, const std::vector<std::string>& names, const std::string& path) {
  if (names.empty()) return known;
  const auto count = static_cast<int64_t>(names.size());
  const bool differ = !known.names.empty() && known.names != names;
  if (differ || (known.count > 0 && known.count != count)) {
    throw DataError(path + " names " + std::to_string(count) + " classes" +
                        (differ ? ", which are not the training split's classes"
                                : ", but the training split has " + std::to_string(known.count)),
                    "all splits must have the training split's classes, in the same order");
  }
  known.names = names;
  known.count = count;
  return known;
}

}  // namespace dtrain::data
