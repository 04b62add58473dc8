// What a step is at: told to those who watch over the ranks, and to those who keep time.
#pragma once

#include "trainer/control/control_plane.h"
#include "trainer/loop/host_times.h"
#include "trainer/loop/step_profiler.h"

namespace dtrain::loop {

class Phases {
 public:
  Phases(distributed::ControlPlane& control, StepProfiler& profiler, bool host_computes, bool alone,
         double seconds_so_far)
      : control_(control), profiler_(profiler), times_(host_computes, seconds_so_far), alone_(alone) {}

  void Enter(distributed::Phase phase) {
    control_.Enter(phase);
    Spend(PartOf(phase));
  }
  // Of no interest to other ranks.
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
  bool alone_;  // nothing is exchanged
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
