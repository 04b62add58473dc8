// One training step: its batches, forward and backward, the exchange with the other ranks, and the update. No step
// waits for the device: the sums stay there until a line is logged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trainer/config/batch_sizes.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/loop/log_interval.h"
#include "trainer/loop/phases.h"
#include "trainer/loop/spike_watch.h"
#include "trainer/loop/step_computation.h"
#include "trainer/loop/train_feed.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/optim/weight_average.h"

namespace dtrain::loop {

class TrainingStep {
 public:
  // Everything referred to must outlive this object.
  TrainingStep(const TrainerParts& parts, TrainFeed& feed, Phases& phases, LogInterval& interval);
  ~TrainingStep();

  // A collective, called once, before the first step: see Trainer::Restore.
  void Restore(const Progress& progress, const checkpoint::Snapshot* restored);

  // A collective. Computes step `step`, counted from 1, and adds its sums to the interval. Throws DivergedError if too
  // many steps in a row were skipped, DataError, and the errors of Communicator if a peer is lost.
  void Run(int64_t step);

  const optim::ParameterUpdate& update() const { return computation_.update(); }
  // These are null if the run has none.
  optim::WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  SpikeWatch* spikes() const { return spikes_.get(); }
  distributed::BucketLayout bucket_layout() const { return computation_.data_parallel().bucket_layout(); }

 private:
  // Waits for the batch of the next part of a step that this rank computes, a micro-step or a shard, and seeds the
  // random generators for it.
  data::Batch NextBatch();
  void ShowFirstBatch(const data::Batch& batch);
  void Replay(int64_t step, double learning_rate);
  void SayOnceThatStepsAreReplayed(int64_t step);
  void Compute(double learning_rate);
  optim::Rate RateOnDevice(double learning_rate);
  // Forward and backward of one micro-step; the last one of a step also exchanges and updates. A step graph records it:
  // see StepGraph::Step.
  void ComputeMicroStep(const data::Batch& batch, int64_t micro_step, const optim::Rate& learning_rate);
  void ComputeShards();
  void ComputeForwardAndBackward(const data::Batch& batch, bool reduce);
  // Takes the sums of gradients, statistics and losses over the global batch.
  void Update(const optim::Rate& learning_rate);

  const TrainerParts& parts_;
  TrainFeed& feed_;
  Phases& phases_;
  LogInterval& interval_;
  const config::ShardRange shards_;
  StepComputation computation_;
  std::optional<optim::WeightAverage> average_;
  std::unique_ptr<SpikeWatch> spikes_;
  at::Tensor learning_rate_;  // float32 scalar on the device, of unrecorded steps
  bool said_replayed_ = false;
};

}  // namespace dtrain::loop
