// The phase that a rank is in. One call announces it to the control plane, which watches over the ranks, and to those
// who measure time (HostTimes, StepProfiler).
#pragma once

#include <chrono>

#include "trainer/control/control_plane.h"
#include "trainer/loop/step_profiler.h"
#include "trainer/report/points.h"

namespace dtrain::loop {

// Measures where the host's time goes. Entering a phase ends the one before, so the phases add up to the whole.
//
// If the rank computes on a CPU, the parts are the work itself. With a GPU the host only queues work and waits now and
// then, so it knows only how long it waits for data, saves and evaluates; all other time counts as kForward.
class HostTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts in kStarting, of which `so_far` seconds have passed already.
  HostTimes(bool host_computes, double so_far) : host_computes_(host_computes) {
    times_[report::Phase::kStarting] = so_far;
  }

  bool tells_parts_of_steps() const { return host_computes_; }

  void Enter(report::Phase part) {
    const auto now = Clock::now();
    times_ = UpTo(now);
    since_ = now;
    part_ = host_computes_ || IsKnownOnGpu(part) ? part : report::Phase::kForward;
  }

  // The time spent in each part up to now, the current one included.
  report::TimeParts UpToNow() const { return UpTo(Clock::now()); }

 private:
  report::TimeParts UpTo(Clock::time_point now) const {
    report::TimeParts times = times_;
    times[part_] += std::chrono::duration<double>(now - since_).count();
    return times;
  }
  static bool IsKnownOnGpu(report::Phase part) {
    return part == report::Phase::kData || part == report::Phase::kSaving || part == report::Phase::kEvaluation;
  }

  bool host_computes_;
  report::TimeParts times_;
  report::Phase part_ = report::Phase::kStarting;
  Clock::time_point since_ = Clock::now();
};

class Phases {
 public:
  // `host_computes`: see HostTimes. `alone`: Communicator::is_alone.
  Phases(control::ControlPlane& control, StepProfiler& profiler, bool host_computes, bool alone);

  void Enter(report::Phase phase) {
    if (phase != report::Phase::kOther) control_.Enter(phase);
    CountAs(phase);
  }
  // Counts the time from now on as that of `phase`, without telling the control plane.
  void CountAs(report::Phase phase) {
    if (alone_ && phase == report::Phase::kExchange) phase = report::Phase::kUpdate;  // there is no exchange
    times_.Enter(phase);
    profiler_.Enter(phase);
  }

  const HostTimes& times() const { return times_; }

 private:
  control::ControlPlane& control_;
  StepProfiler& profiler_;
  HostTimes times_;
  bool alone_;
};

}  // namespace dtrain::loop
