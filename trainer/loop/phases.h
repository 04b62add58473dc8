// The phase that a rank is in. One call announces it to the control plane, which watches over the ranks, and to those
// who measure time (HostTimes, StepProfiler).
#pragma once

#include "trainer/control/control_plane.h"
#include "trainer/loop/host_times.h"
#include "trainer/loop/step_profiler.h"

namespace dtrain::loop {

class Phases {
 public:
  // `host_computes` and `seconds_so_far`: see HostTimes. `alone`: Communicator::is_alone.
  Phases(distributed::ControlPlane& control, StepProfiler& profiler, bool host_computes, bool alone,
         double seconds_so_far)
      : control_(control), profiler_(profiler), times_(host_computes, seconds_so_far), alone_(alone) {}

  void Enter(distributed::Phase phase) {
    control_.Enter(phase);
    Spend(PartOf(phase));
  }
  // Changes the part that time is counted for, without telling the control plane.
  void Spend(report::TimePart part) {
    times_.Enter(part);
    profiler_.Enter(part);
  }

  const HostTimes& times() const { return times_; }

 private:
  report::TimePart PartOf(distributed::Phase phase) const;

  distributed::ControlPlane& control_;
  StepProfiler& profiler_;
  HostTimes times_;
  bool alone_;  // there is no exchange: kExchange is counted as kUpdate
};

inline report::TimePart Phases::PartOf(distributed::Phase phase) const {
  using distributed::Phase;
  using report::TimePart;
  switch (phase) {
    case Phase::kStarting:
      return TimePart::kStartUp;
    case Phase::kData:
      return TimePart::kDataWait;
    case Phase::kForward:
      return TimePart::kForward;
    case Phase::kBackward:
      return TimePart::kBackward;
    case Phase::kExchange:
      return alone_ ? TimePart::kUpdate : TimePart::kCommunication;
    case Phase::kUpdate:
      return TimePart::kUpdate;
    case Phase::kEvaluation:
      return TimePart::kEvaluation;
    case Phase::kSaving:
      return TimePart::kCheckpoint;
    case Phase::kLeaving:
      return TimePart::kOther;
  }
  return TimePart::kOther;
}

}  // namespace dtrain::loop
