// One training step: forward and backward of its batches, the exchange with the other ranks, and the update. No step
// waits for the device: the sums stay there until a line is logged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trainer/config/batch_sizes.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/loop/log_interval.h"
#include "trainer/loop/phases.h"
#include "trainer/loop/step_computation.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/loop/training_health.h"
#include "trainer/optim/weight_average.h"

namespace dtrain::loop {

class TrainingStep {
 public:
  // Everything referred to must outlive this object.
  TrainingStep(const TrainerParts& parts, Phases& phases, LogInterval& interval);

  // A collective, called once, before the first step: see Trainer::Restore.
  void Restore(const Progress& progress, const checkpoint::Snapshot* restored);

  // The batches that this rank computes in a step: those of its micro-steps, or with --deterministic=elastic one for
  // each of its shards.
  int64_t num_batches() const;

  // The order of calls in a step, which is counted from 1: Begin, Compute with each batch, End.
  void Begin(int64_t step);
  // A collective. Runs forward and backward; with the last micro-step also the exchange and the update, and adds the
  // step's sums to the interval. Apart from the phases this is work of the device, which a step graph may record
  // (StepGraph::Step). Throws the errors of Communicator if a peer is lost.
  void Compute(const data::Batch& batch);
  // A collective. Exchanges and updates if the step has shards. Throws DivergedError if too many steps in a row were
  // skipped, and as Compute does.
  void End(int64_t step);

  const optim::ParameterUpdate& update() const { return computation_.update(); }
  // These are null if the run has none.
  optim::WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  SpikeWatch* spikes() const { return spikes_.get(); }
  distributed::BucketLayout bucket_layout() const { return computation_.data_parallel().bucket_layout(); }

 private:
  // Takes the sums of gradients, statistics and losses over the global batch.
  void Update();

  const TrainerParts& parts_;
  Phases& phases_;
  LogInterval& interval_;
  const config::ShardRange shards_;
  StepComputation computation_;
  std::optional<optim::WeightAverage> average_;
  std::unique_ptr<SpikeWatch> spikes_;
  // A float32 scalar on the device on a GPU and for recorded steps: float32 rounds it, and the bits of a run must not
  // depend on which of its steps are recorded.
  optim::Rate rate_;
};

}  // namespace dtrain::loop
