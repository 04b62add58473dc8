// The training loop: steps, and between them logging, evaluating, saving and stopping.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "trainer/checkpoint/async_writer.h"
#include "trainer/config/elastic.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/distributed/shard_step.h"
#include "trainer/distributed/step_exchange.h"
#include "trainer/loop/log_interval.h"
#include "trainer/loop/phases.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/spike_watch.h"
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
  // `writer` is null on ranks other than 0. It must outlive the trainer.
  Trainer(const TrainerParts& parts, checkpoint::AsyncWriter* writer);
  ~Trainer();

  // A collective, called once before Run, also by a fresh run. `restored` is the checkpoint that rank 0 has read (null
  // on other ranks, and if there is none), `progress` is the same on all ranks. Throws StorageError if the checkpoint
  // does not fit the model or the optimizer.
  void Restore(const Progress& progress, const checkpoint::Snapshot* restored);

  // A collective. Trains to the end of the plan, or until training stops early (Plan::WhyStopsEarly). Throws Preempted
  // after a clean save if any rank was asked to stop, DivergedError if the loss is no longer finite, too many steps in
  // a row were skipped or the loss spikes after too many rewinds, DataError, StorageError, and the errors of
  // Communicator if a peer is lost.
  report::RunResult Run();

  // From now on Run stores the number of steps done in `*step`, for the report of a failure.
  void ReportStepsTo(int64_t* step) { reported_step_ = step; }

 private:
  int64_t LastStep() const;  // the last step of this run of the program: see --limit_train_steps
  bool EvaluationWasMissed() const;
  bool StopsEarly() const { return !parts_.plan.WhyStopsEarly(progress_).empty(); }
  [[noreturn]] void SaveAndStop();
  // Reports the spikes of the loss since the last call. Returns whether the run has gone back to its last checkpoint.
  bool GoesBackAfterSpikes();
  void ReportSpike(const Spike& spike, const std::string& action, std::optional<Rewind> rewind = std::nullopt);
  void GoBack(const Spike& spike);
  bool ReadsSpikes(bool stop, bool last) const;
  bool Rewinds() const { return spikes_ && parts_.config.optimizer.on_spike == "rewind"; }
  void TrainStep();
  optim::Rate RateOnDevice(double learning_rate);
  void SayOnceThatStepsAreReplayed();
  // Waits for the batch of the next part of a step that this rank computes, a micro-step or a shard, and seeds the
  // random generators for it.
  data::Batch NextBatch();
  void ReplayStep(double learning_rate);
  void ComputeStep(double learning_rate);
  // Forward and backward of one micro-step; the last one of a step also exchanges and updates. A step graph records it:
  // see StepGraph::Step.
  void ComputeMicroStep(const data::Batch& batch, int64_t micro_step, const optim::Rate& learning_rate);
  void ComputeShards();
  void ComputeForwardAndBackward(const data::Batch& batch, bool reduce);
  // Takes the sums of gradients, statistics and sums_ over the global batch.
  void Update(const optim::Rate& learning_rate);
  double FactorBeforeBackward() const;
  std::optional<at::Tensor> FactorOfUpdate() const;
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
  const config::ShardRange shards_;
  int64_t* reported_step_ = nullptr;
  const double nominal_weight_;  // of a global batch: see Task::NominalWeight
  TrainFeed feed_;
  Validation validation_;
  optim::ParameterUpdate update_;
  std::optional<optim::WeightAverage> average_;
  Progress progress_;
  std::unique_ptr<distributed::DataParallel> data_parallel_;
  std::unique_ptr<distributed::StepExchange> exchange_;
  std::unique_ptr<distributed::ShardStep> shard_step_;  // of --deterministic=elastic, otherwise null
  StepProfiler profiler_;
  Phases phases_;
  Saving saving_;
  at::Tensor learning_rate_;  // float32 scalar on the device, of unrecorded steps
  at::Tensor sums_;           // float32 on the device, of the current step, indexed by StepSum
  bool said_replayed_ = false;
  LogInterval interval_;
  double evaluation_seconds_ = 0;  // in this run of the program
  bool warned_of_waiting_ = false;
  std::optional<SpikeWatch> spikes_;
  SkippedSteps skipped_steps_;
  NothingToLearn nothing_to_learn_;
  std::chrono::steady_clock::time_point epoch_start_, last_times_;
};

}  // namespace dtrain::loop
