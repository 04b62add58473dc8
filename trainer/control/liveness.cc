#include "trainer/control/liveness.h"

#include <algorithm>
#include <cstdio>

namespace dtrain::control {

Liveness::Answer Liveness::Ask(const Position& position, bool awaits_save, Time now) {
  if (!seen_ || !(position == *seen_)) {
    seen_ = position;
    since_ = now;
  }
  const double still = std::chrono::duration<double>(now - since_).count();
  const double patience = awaits_save ? std::max(timeout_seconds_, kSavingSeconds) : timeout_seconds_;
  char duration[32];
  std::snprintf(duration, sizeof duration, ", for %.1f s", still);
  return {still < patience, Describe(position) + duration};
}

}  // namespace dtrain::control
