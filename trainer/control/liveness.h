// Whether this rank goes on, for those who restart a machine that hangs (Kubernetes). All ranks wait for one that
// hangs, so one rank of each machine can answer for the others. It reads no clock, like StallWatch.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "trainer/control/position.h"

namespace dtrain::control {

class Liveness {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A rank may stand still for `timeout_seconds` (--comm_timeout), and for kSavingSeconds if that is longer while it
  // waits for a save.
  explicit Liveness(double timeout_seconds) : timeout_seconds_(timeout_seconds) {}

  struct Answer {
    bool alive;
    std::string text;  // such as "after step 6: forward pass, for 0.2 s"
  };
  // The rank is at `position`. Its time there counts from the first call that saw it there.
  Answer Ask(const Position& position, bool awaits_save, Time now);

 private:
  double timeout_seconds_;
  std::optional<Position> seen_;
  Time since_;
};

}  // namespace dtrain::control
