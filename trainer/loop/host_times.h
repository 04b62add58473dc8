// Where the host's time goes: whoever enters a part ends the one before, so that the parts add up to the whole.
#pragma once

#include <chrono>

#include "trainer/report/time_parts.h"

namespace dtrain::loop {

// On a CPU these are the parts of the work itself. On a GPU the host only says what is to be done, and waits now and
// then: what it knows there is when it waits for data, saves and evaluates, and all else counts as one, kForward.
class HostTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins with kStartUp, of which `so_far` seconds are gone.
  HostTimes(bool host_computes, double so_far) : host_computes_(host_computes) {
    times_[report::TimePart::kStartUp] = so_far;
  }

  bool tells_parts_of_steps() const { return host_computes_; }

  void Enter(report::TimePart part) {
    const auto now = Clock::now();
    times_ = UpTo(now);
    since_ = now;
    part_ = host_computes_ || IsTold(part) ? part : report::TimePart::kForward;
  }

  // All so far.
  report::TimeParts UpToNow() const { return UpTo(Clock::now()); }

 private:
  report::TimeParts UpTo(Clock::time_point now) const {
    report::TimeParts times = times_;
    times[part_] += std::chrono::duration<double>(now - since_).count();
    return times;
  }
  static bool IsTold(report::TimePart part) {
    return part == report::TimePart::kDataWait || part == report::TimePart::kCheckpoint ||
           part == report::TimePart::kEvaluation;
  }

  bool host_computes_;
  report::TimeParts times_;
  report::TimePart part_ = report::TimePart::kStartUp;
  Clock::time_point since_ = Clock::now();
};

}  // namespace dtrain::loop
