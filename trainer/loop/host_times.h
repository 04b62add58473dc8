// Measures where the host's time goes. Entering a part ends the one before, so the parts add up to the whole.
#pragma once

#include <chrono>

#include "trainer/report/time_parts.h"

namespace dtrain::loop {

// If the rank computes on a CPU, the parts are the work itself. With a GPU the host only queues work and waits now and
// then, so it knows only how long it waits for data, saves and evaluates; all other time counts as kForward.
class HostTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts in kStartUp, of which `so_far` seconds have passed already.
  HostTimes(bool host_computes, double so_far) : host_computes_(host_computes) {
    times_[report::TimePart::kStartUp] = so_far;
  }

  bool tells_parts_of_steps() const { return host_computes_; }

  void Enter(report::TimePart part) {
    const auto now = Clock::now();
    times_ = UpTo(now);
    since_ = now;
    part_ = host_computes_ || IsKnownOnGpu(part) ? part : report::TimePart::kForward;
  }

  // The time spent in each part up to now, the current one included.
  report::TimeParts UpToNow() const { return UpTo(Clock::now()); }

 private:
  report::TimeParts UpTo(Clock::time_point now) const {
    report::TimeParts times = times_;
    times[part_] += std::chrono::duration<double>(now - since_).count();
    return times;
  }
  static bool IsKnownOnGpu(report::TimePart part) {
    return part == report::TimePart::kDataWait || part == report::TimePart::kCheckpoint ||
           part == report::TimePart::kEvaluation;
  }

  bool host_computes_;
  report::TimeParts times_;
  report::TimePart part_ = report::TimePart::kStartUp;
  Clock::time_point since_ = Clock::now();
};

}  // namespace dtrain::loop
