// The training loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "trainer/checkpoint/async_writer.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/distributed/step_exchange.h"
#include "trainer/loop/early_stop.h"
#include "trainer/loop/log_interval.h"
#include "trainer/loop/phases.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/step_profiler.h"
#include "trainer/loop/train_feed.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/loop/training_health.h"
#include "trainer/loop/training_state.h"
#include "trainer/loop/validation.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/optim/weight_average.h"

namespace dtrain::loop {

class Trainer {
 public:
  // `writer` is rank 0's, null on the others.
  Trainer(const TrainerParts& parts, checkpoint::AsyncWriter* writer);
  ~Trainer();

  // Before Run, on all ranks alike: `restored` is what rank 0 read from its checkpoint (null on the others, and where
  // there is none), `progress` is the same on all ranks.
  void Restore(const Progress& progress, const checkpoint::Snapshot* restored);

  // To the end of the plan, or to where it is given up (early_stop.h). Throws Preempted after a clean save when a stop
  // was asked for on any rank, DivergedError when the loss is no longer finite, and what data, peers and disk throw.
  report::RunResult Run();

  // Keeps `*step` at the number of steps done, for the report of a failure.
  void ReportStepsTo(int64_t* step) { reported_step_ = step; }

 private:
  int64_t LastStep() const;  // of this run of the program
  bool EvaluationWasMissed() const;
  bool StopsEarly() const { return !WhyStopsEarly(parts_.config.run, parts_.plan, progress_).empty(); }
  [[noreturn]] void SaveAndStop();
  void TrainStep();
  // The batch of a micro-step, arrived; what its step draws is drawn from now on.
  data::Batch NextBatch(int64_t micro_step);
  // What a step does on the device.
  void ComputeStep(const std::function<data::Batch(int64_t micro_step)>& next_batch, const optim::Rate& learning_rate);
  void ComputeMicroStep(const data::Batch& batch, bool reduce, at::Tensor& sums);
  void LogStep();
  void ReportTimes();
  void ShowFirstBatch(const data::Batch& batch);
  void WarnOfWaiting(const report::TrainPoint& point);
  void FinishEpoch();
  void EvaluateNow();
  void Save();
  optim::WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  void NoteBest(const report::ValPoint& point);
  report::RunResult Result(std::chrono::steady_clock::time_point start) const;

  const TrainerParts parts_;
  int64_t* reported_step_ = nullptr;
  const double nominal_weight_;  // of a global batch: see Task
  TrainFeed feed_;
  Validation validation_;
  optim::ParameterUpdate update_;
  std::optional<optim::WeightAverage> average_;
  Progress progress_;
  std::unique_ptr<distributed::DataParallel> data_parallel_;
  std::unique_ptr<distributed::StepExchange> exchange_;
  StepProfiler profiler_;
  Phases phases_;
  Saving saving_;
  LogInterval interval_;
  double evaluation_seconds_ = 0;  // in this run of the program
  bool warned_of_waiting_ = false;
  SkippedSteps skipped_steps_;
  std::chrono::steady_clock::time_point epoch_start_, last_times_;
};

}  // namespace dtrain::loop
