// The sums over the steps between two logged lines, and the line that is made of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>

#include "data/pipeline/batch.h"
#include "trainer/loop/phases.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/loop/training_state.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/report/points.h"

namespace dtrain::loop {

// The sums stay on the device until a line is logged, so that no step waits for the device.
class LogInterval {
 public:
  LogInterval(const TrainerParts& parts, const HostTimes& times);

  // For a run that resumes in the middle of an interval: restores the sums of the steps before, and returns their
  // number.
  int64_t Restore(const Progress& progress);
  // Stores the same in `progress`, for a checkpoint. Waits for the device.
  void KeepIn(Progress& progress) const;

  // Starts the clocks. Called right before the first step.
  void Start();
  // Adds a step's `sums` (float32 by StepSum, over all ranks) and its result in `update`. This is work of the device
  // alone, since a step graph records it (StepGraph::Step).
  void AddStep(const at::Tensor& sums, const optim::ParameterUpdate& update);
  // Counts a step.
  void EndStep() { ++steps_; }
  // Excludes `time`, which was spent on something other than training, from speeds and step times.
  void LeaveOut(std::chrono::steady_clock::duration time) { start_ += time; }

  // Returns the line, without the fields that Saving::AddTo fills in. The loss is NaN if no step had a finite one.
  // Waits for the device.
  report::TrainPoint Line(int64_t step, const optim::ParameterUpdate& update) const;
  // Begins the next interval.
  void Restart();

  // The images or tokens of all ranks that this run of the program has trained on. Waits for the device.
  double units_of_run() const { return units_of_run_.item<double>(); }

 private:
  void AddNorm(const optim::ParameterUpdate& update);
  void AddTimes(report::TrainPoint& point, double seconds) const;
  void AddText(report::TrainPoint& point, const at::Tensor& sums, double seconds) const;

  const TrainerParts& parts_;
  const HostTimes& times_;
  at::Tensor sums_;                 // float64 on the device, indexed by IntervalSum
  at::Tensor units_of_run_;         // float64 scalar on the device
  report::TimeParts times_before_;  // at the start of the interval
  int64_t steps_ = 0;               // of this start of the program
  int64_t steps_before_ = 0;
  double units_before_ = 0;
  std::chrono::steady_clock::time_point run_start_, start_;
};

}  // namespace dtrain::loop
