// A list is cut at the commas outside brackets. A name is a prefix, a bracket, and a rest, which is a name again.
#include "trainer/launch/node_list.h"

#include "data/whole_number.h"
#include "trainer/errors.h"
#include "trainer/launch/variables.h"

namespace dtrain::launch {
namespace {

constexpr size_t kMostNodes = 65'536;

[[noreturn]] void Refuse(const std::string& text, const std::string& why) {
  throw UsageError("the node list '" + text + "' cannot be read: " + why,
                   "set MASTER_ADDR or --master_addr to the host of rank 0, and unset the list");
}

std::vector<std::string> CutOutsideBrackets(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) Refuse(text, "its brackets do not match");
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (depth != 0) Refuse(text, "its brackets do not match");
  return parts;
}

// "01-03" → 01 02 03, padded with zeros to the width of the first; "7" → 7.
void AppendRange(const std::string& range, const std::string& whole, std::vector<std::string>& numbers) {
  const size_t dash = range.find('-');
  const std::string first = range.substr(0, dash);
  const auto from = data::WholeNumber<int>(first);
  const auto to = dash == std::string::npos ? from : data::WholeNumber<int>(range.substr(dash + 1));
  if (!from || !to || *from < 0 || *to < *from) Refuse(whole, "'" + range + "' is no range");
  if (static_cast<size_t>(*to - *from) >= kMostNodes - numbers.size()) Refuse(whole, "it is too long");
  for (int number = *from; number <= *to; ++number) {
    const std::string digits = std::to_string(number);
    numbers.push_back(std::string(first.size() > digits.size() ? first.size() - digits.size() : 0, '0') + digits);
  }
}

std::vector<std::string> ExpandName(const std::string& name, const std::string& whole) {
  const size_t open = name.find('[');
  if (open == std::string::npos) return {name};
  const size_t close = name.find(']', open);
  std::vector<std::string> numbers;
  const std::string inside = name.substr(open + 1, close - open - 1);
  for (const std::string& range : CutOutsideBrackets(inside)) AppendRange(range, whole, numbers);
  std::vector<std::string> names;
  const std::vector<std::string> rests = ExpandName(name.substr(close + 1), whole);
  if (numbers.size() * rests.size() > kMostNodes) Refuse(whole, "it is too long");
  for (const std::string& number : numbers) {
    for (const std::string& rest : rests) names.push_back(name.substr(0, open) + number + rest);
  }
  return names;
}

}  // namespace

std::vector<std::string> ExpandNodeList(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& name : CutOutsideBrackets(text)) {
    if (name.empty()) Refuse(text, "a name is empty");
    const std::vector<std::string> expanded = ExpandName(name, text);
    if (names.size() + expanded.size() > kMostNodes) Refuse(text, "it is too long");
    names.insert(names.end(), expanded.begin(), expanded.end());
  }
  return names;
}

std::vector<int> ExpandCounts(const std::string& text) {
  std::vector<int> counts;
  for (const std::string& part : CutOutsideBrackets(text)) {
    const size_t times = part.find("(x");
    const auto count = data::WholeNumber<int>(part.substr(0, times));
    const bool repeated = times != std::string::npos && part.back() == ')';
    const auto repeat =
        repeated ? data::WholeNumber<int>(part.substr(times + 2, part.size() - times - 3)) : std::optional<int>(1);
    const bool plain = times == std::string::npos;
    if (!count || *count < 1 || !repeat || *repeat < 1 || !(plain || repeated))
      Refuse(text, "'" + part + "' is no count");
    if (static_cast<size_t>(*repeat) > kMostNodes - counts.size()) Refuse(text, "it is too long");
    counts.insert(counts.end(), static_cast<size_t>(*repeat), *count);
  }
  return counts;
}

}  // namespace dtrain::launch
