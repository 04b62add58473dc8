// The clock and the timeouts by which ranks measure how long they wait for each other.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace dtrain::control {

using Clock = std::chrono::steady_clock;

// Longer timeouts are cut to this one, about eleven days. Its milliseconds still fit into an int, which is what c10d
// passes to poll().
constexpr double kLongestTimeoutSeconds = 1e6;

inline double ClampedSeconds(double seconds) { return std::clamp(seconds, 0.0, kLongestTimeoutSeconds); }

// Converts any number of seconds, clamped so that the result does not overflow when it is added to a time point or
// passed to c10d or Gloo.
inline std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(ClampedSeconds(seconds) * 1000));
}

}  // namespace dtrain::control
