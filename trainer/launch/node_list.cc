// A list is cut at the commas outside brackets.
#include "trainer/launch/node_list.h"

#include <algorithm>
#include <cstdint>

#include "data/whole_number.h"
#include "trainer/errors.h"
#include "trainer/launch/detectors.h"

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

}  // namespace

std::string FirstNode(const std::string& text) {
  const std::string name = CutOutsideBrackets(text).front();
  if (name.empty()) Refuse(text, "a name is empty");
  std::string first;
  for (size_t at = 0; at < name.size();) {
    const size_t open = std::min(name.find('[', at), name.size());
    first += name.substr(at, open - at);
    if (open == name.size()) break;
    const size_t close = name.find(']', open);
    const std::string ranges = name.substr(open + 1, close - open - 1);
    const std::string number = ranges.substr(0, ranges.find_first_of("-,"));
    if (!data::WholeNumber<uint32_t>(number)) Refuse(text, "'" + ranges + "' is not a range");
    first += number;
    at = close + 1;
  }
  return first;
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
      Refuse(text, "'" + part + "' is not a count");
    if (static_cast<size_t>(*repeat) > kMostNodes - counts.size()) Refuse(text, "it is too long");
    counts.insert(counts.end(), static_cast<size_t>(*repeat), *count);
  }
  return counts;
}

}  // namespace dtrain::launch
