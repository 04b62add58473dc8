// A range of training steps, such as "10:12"; both ends are included and count from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dtrain::config {

struct StepRange {
  int64_t first = 0;
  int64_t last = 0;
  bool operator==(const StepRange&) const = default;
};

// Returns empty unless `text` is two whole numbers with a colon between them, 1 ≤ first ≤ last.
std::optional<StepRange> ParseStepRange(const std::string& text);

}  // namespace dtrain::config
