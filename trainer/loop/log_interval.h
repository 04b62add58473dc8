// What is summed up between two logged lines, and the line that comes of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>

#include "data/pipeline/batch.h"
#include "trainer/loop/host_times.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/loop/training_state.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/report/points.h"

namespace dtrain::loop {

// What a step sums over its global batch, and what travels in its exchange.
enum StepSum { kLossSum, kWeight, kUnits, kPadding, kSamples, kHits, kNumStepSums };

// The sums stay on the device until a line is logged: no step waits for it.
class LogInterval {
 public:
  LogInterval(const TrainerParts& parts, const HostTimes& times);

  // A run that goes on in the middle of an interval has the loss and the hits of the steps before.
  void Restore(const Progress& progress);
  // For a checkpoint; waits for the device.
  void KeepIn(Progress& progress) const;

  // The first step comes now.
  void Start();
  // Done in what a step graph records, too: `sums` (floats by StepSum, of all ranks) of a step that `update` was
  // applied in.
  void AddStep(const at::Tensor& sums, const optim::ParameterUpdate& update);
  // What the host knows of a step.
  void AddBatch(const data::Batch& batch) { decoded_on_cpu_ += batch.size() - batch.decoded_on_device; }
  void EndStep() { ++steps_; }
  // Something other than training took so long: speeds do not count it.
  void LeaveOut(std::chrono::steady_clock::duration time) { start_ += time; }

  // The line, of all but what the checkpoints' writer knows; waits for the device. The loss is NaN where no step had a
  // finite one.
  report::TrainPoint Line(int64_t step, const optim::ParameterUpdate& update) const;
  // The next interval begins.
  void Restart();

  // All that was trained on in this run of the program: what its speed counts. Waits for the device.
  double units_of_run() const { return units_of_run_.item<double>(); }

 private:
  void AddNorm(const optim::ParameterUpdate& update);
  void AddTimes(report::TrainPoint& point, double seconds) const;
  void AddText(report::TrainPoint& point, const at::Tensor& sums, double seconds) const;

  const TrainerParts& parts_;
  const HostTimes& times_;
  at::Tensor sums_;                 // float64 on the device, by IntervalSum
  at::Tensor units_of_run_;         // float64 scalar on the device
  report::TimeParts times_before_;  // the interval
  int64_t steps_ = 0;
  int64_t decoded_on_cpu_ = 0;  // images of this rank
  std::chrono::steady_clock::time_point run_start_, start_;
};

}  // namespace dtrain::loop
