#include "trainer/config/step_range.h"

#include <string_view>

#include "data/whole_number.h"

namespace dtrain::config {

std::optional<StepRange> ParseStepRange(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string_view both = text;
  const auto first = data::WholeNumber(both.substr(0, colon)), last = data::WholeNumber(both.substr(colon + 1));
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return StepRange{*first, *last};
}

}  // namespace dtrain::config
