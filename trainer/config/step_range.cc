#include "trainer/config/step_range.h"

#include <charconv>

namespace dtrain::config {
namespace {

std::optional<int64_t> WholeNumber(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<StepRange> ParseStepRange(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto first = WholeNumber(text.substr(0, colon)), last = WholeNumber(text.substr(colon + 1));
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return StepRange{*first, *last};
}

}  // namespace dtrain::config
