// How ranks measure how long they wait for each other.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace dtrain::distributed {

using Clock = std::chrono::steady_clock;

// Eleven days: any timeout beyond means "for ever", and milliseconds of it still fit an int, which c10d hands to
// poll().
constexpr double kLongestTimeoutSeconds = 1e6;

inline double ClampedSeconds(double seconds) { return std::clamp(seconds, 0.0, kLongestTimeoutSeconds); }

// Of any number: what is added to a clock, or handed to c10d and Gloo, must not overflow there.
inline std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(ClampedSeconds(seconds) * 1000));
}

}  // namespace dtrain::distributed
