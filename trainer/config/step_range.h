// "10:12": training steps, first and last, counted from 1.
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

// nullopt for anything else than two whole numbers, 1 ≤ first ≤ last.
std::optional<StepRange> ParseStepRange(const std::string& text);

}  // namespace dtrain::config
