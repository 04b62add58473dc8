#include "data/formats/labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "data/error.h"
#include "data/joined.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/utf8.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

constexpr size_t kMostShownBytes = 60;

std::string QuotedName(const std::string& name) { return "'" + Shown(name, kMostShownBytes) + "'"; }

std::string ListOf(const std::vector<std::string>& names) {
  constexpr size_t kMost = 10;
  return FirstOf(names, kMost, QuotedName) +
         (names.size() > kMost ? " (" + std::to_string(names.size()) + " in all)" : "");
}

// Throws DataError if a label is none of `classes`, which `whose` describes.
void RequireKnown(const std::vector<SeenLabel>& seen, const std::vector<std::string>& classes, const std::string& whose,
                  const std::string& hint) {
  const std::set<std::string> names(classes.begin(), classes.end());
  for (const SeenLabel& label : seen) {
    if (names.contains(label.name)) continue;
    throw DataError(label.place + ": the label " + QuotedName(label.name) + " is none of the classes " + whose + ": " +
                        ListOf(classes),
                    hint);
  }
}

// The same as DecimalNumber, and infinities and nan.
std::optional<double> AnyNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

bool HasFraction(const std::string& label) {
  const auto number = DecimalNumber(label);
  return number && *number != std::floor(*number);
}

// Throws DataError if labels are numbers to predict, but for some.
void RequireNoBadNumbers(const std::vector<SeenLabel>& seen) {
  const auto is_number = [](const SeenLabel& label) { return AnyNumber(label.name).has_value(); };
  const auto is_decimal = [](const SeenLabel& label) { return DecimalNumber(label.name).has_value(); };
  const auto other = std::ranges::find_if_not(seen, is_decimal);
  const bool are_numbers = std::ranges::any_of(seen, HasFraction, &SeenLabel::name) ||
                           (std::ranges::all_of(seen, is_number) && std::ranges::any_of(seen, is_decimal));
  if (!are_numbers || other == seen.end()) return;
  throw DataError(other->place + ": the label " + QuotedName(other->name) + " is no decimal number, but others are",
                  "correct it, or leave the row out; if both are names of classes, list all of them in classes.txt "
                  "beside the data, one per line");
}

// Throws DataError if labels look like what this program reads otherwise: numbers with a decimal comma, which would
// each become a class, or several labels in one cell.
void RequireNoCommas(const std::vector<SeenLabel>& seen) {
  std::set<std::string_view> names;
  for (const SeenLabel& label : seen) names.insert(label.name);
  bool are_numbers = true;
  const SeenLabel* comma = nullptr;
  for (const SeenLabel& label : seen) {
    std::string with_point = label.name;
    const size_t at = with_point.find(',');
    if (at != std::string::npos) with_point[at] = '.';
    are_numbers = are_numbers && DecimalNumber(with_point).has_value();
    if (at != std::string::npos && comma == nullptr) comma = &label;
    std::string_view rest = label.name;
    bool joins = at != std::string::npos;
    while (joins && !rest.empty()) {
      const size_t end = std::min(rest.find(','), rest.size());
      joins = names.contains(Stripped(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (!joins) continue;
    throw DataError(
        label.place + ": the label " + QuotedName(label.name) + " joins several, which other rows have alone",
        "this task learns one label a row; if it is a class of its own, list all classes in classes.txt "
        "beside the data, one per line");
  }
  if (!are_numbers || comma == nullptr) return;
  throw DataError(comma->place + ": the label " + QuotedName(comma->name) + " looks like a number with a decimal comma",
                  "write numbers with a point (3.5); if labels are classes, list them in classes.txt beside the data, "
                  "one per line");
}

// Returns the lines of classes.txt that are not empty, with or without blanks around them.
std::vector<std::string> ClassesIn(const std::string& folder, bool stripped) {
  const std::string path = folder + "/" + kClassFile;
  std::istringstream text(std::string(WithoutByteOrderMark(TextBeside(path))));
  std::vector<std::string> names;
  std::map<std::string, size_t> line_of;
  size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (stripped) line = std::string(Stripped(line));
    if (line.empty()) continue;
    const auto [first, is_first] = line_of.emplace(line, number);
    if (!is_first) {
      throw DataError(path + " line " + std::to_string(number) + ": the class " + QuotedName(line) + " is in line " +
                          std::to_string(first->second) + ", too",
                      "give each class a name of its own; or take the file away, as for a run that has begun so");
    }
    names.push_back(std::move(line));
  }
  return names;
}

// ---- Numbers of classes ----

std::vector<int64_t> Distinct(std::vector<int64_t> labels) {
  std::erase(labels, -1);
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

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

std::optional<double> DecimalNumber(std::string_view text) {
  const auto number = AnyNumber(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::vector<std::string> SortedClasses(std::vector<std::string> names) {
  std::ranges::sort(names);
  if (std::ranges::all_of(names, [](const auto& name) { return WholeNumber(name).has_value(); })) {
    std::ranges::stable_sort(names, {}, [](const auto& name) { return *WholeNumber(name); });
  }
  return names;
}

bool AreDecimals(const std::vector<std::string>& labels) {
  bool some_is_not_whole = false;
  for (const std::string& label : labels) {
    if (!DecimalNumber(label)) return false;
    some_is_not_whole |= !WholeNumber(label);
  }
  return some_is_not_whole;
}

bool HaveFractions(const std::vector<std::string>& labels) {
  return AreDecimals(labels) && std::ranges::any_of(labels, HasFraction);
}

void RequireClassNames(const std::vector<std::string>& names, const std::string& place) {
  for (const std::string& name : names) {
    const bool is_one_line = name.find_first_of("\r\n") == std::string::npos;
    if (is_one_line && IsUtf8(name)) continue;
    throw DataError(
        place + ": the name of the class '" + Shown(name) + "' " + (is_one_line ? "is not UTF-8" : "has a line break"),
        is_one_line ? "rename the class in UTF-8" : "rename the class, on one line");
  }
}

std::vector<std::string> ReadClassNames(const std::string& folder) { return ClassesIn(folder, /*stripped=*/false); }

std::vector<std::string> ListedClasses(const std::string& folder) { return ClassesIn(folder, /*stripped=*/true); }

int32_t WrittenLabels::NumberOf(const std::string& label, const std::string& where) {
  const auto [found, is_new] = numbers_of_.try_emplace(label, static_cast<int32_t>(seen.size()));
  if (is_new) seen.push_back({label, where});
  return found->second;
}

void WrittenLabels::AddSeveral(std::string_view row, const std::string& separator, const std::string& where) {
  for (size_t begin = 0; begin <= row.size();) {
    const size_t end = std::min(row.find(separator, begin), row.size());
    const std::string_view one = Stripped(row.substr(begin, end - begin));
    if (!one.empty()) Add(std::string(one), where);
    begin = end + separator.size();
  }
  ends.push_back(labels.size());
}

void WrittenLabels::AddNumber(const std::string& label, const std::string& where) {
  const auto number = DecimalNumber(label);
  const auto target = static_cast<float>(number.value_or(0));
  if (!number) {
    throw DataError(where + ": the label " + QuotedName(label) + " is not a decimal number",
                    label.find(',') != std::string::npos
                        ? "write numbers with a point, such as 3.5"
                        : "use --task=text_classification (of images --task=image_classification) for classes");
  }
  if (!std::isfinite(target * target)) {
    throw DataError(where + ": the label " + Shown(label, kMostShownBytes) + " is too large: its square has no float32",
                    "divide all labels by the same number");
  }
  numbers.push_back(target);
}

std::vector<std::string> ClassesOf(const std::vector<SeenLabel>& seen, const KnownClasses& known) {
  if (!known.names.empty()) {
    RequireKnown(seen, known.names, "that the training data has",
                 "correct it, or move rows with it into the training data");
    return known.names;
  }
  if (!known.listed.empty()) {
    RequireKnown(seen, known.listed, "in classes.txt", "correct the label, or add its name there");
    return known.listed;
  }
  std::vector<std::string> names;
  for (const SeenLabel& label : seen) names.push_back(label.name);
  if (AreDecimals(names)) {
    const auto decimal = std::ranges::find_if(seen, [](const auto& label) { return !WholeNumber(label.name); });
    throw DataError(decimal->place + ": the label " + QuotedName(decimal->name) + " is a decimal number, not a class",
                    "use --task=text_regression (of images --task=image_regression), or write classes as whole numbers "
                    "or names");
  }
  RequireNoBadNumbers(seen);
  RequireNoCommas(seen);
  names = SortedClasses(std::move(names));
  return SortedClasses(known.preferred_order) == names ? known.preferred_order : names;
}

std::optional<int64_t> LabelOffsetOf(std::vector<int64_t> labels) {
  labels = Distinct(std::move(labels));
  if (labels.empty()) return 0;
  const bool gapless = labels.back() - labels.front() + 1 == static_cast<int64_t>(labels.size());
  if (!gapless || labels.front() < 0 || labels.front() > 1) return std::nullopt;
  return labels.front();
}

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
