// The plan of a run, computed before it starts: batch sizes, steps, learning rate, and the steps at which something is
// due. The functions are pure, so that a dry run, the trainer and the tests agree.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/config/batch_sizes.h"
#include "trainer/config/config.h"
#include "trainer/optim/lr_schedule.h"

namespace dtrain::loop {

struct Progress;  // training_state.h

// N samples, global batch G. With --last_batch=stream the epochs' samples are one stream cut into global batches:
// total steps = ⌊epochs·N/G⌋, and an epoch ends at the first step with samples seen ≥ k·N. With --last_batch=drop an
// epoch is ⌊N/G⌋ steps.
struct Plan {
  int64_t train_samples = 0;  // N
  config::BatchSizes batch;   // G and its factors
  double steps_per_epoch = 0;
  int64_t total_steps = 0;
  optim::LrSchedule schedule;
  double ema_decay = 0;  // with --ema_scaling; 0: no average

  config::RunConfig run;  // for its intervals; evaluations and checkpoints are due at the end in any case
  int64_t log_interval = 1;

  // `step` is the number of steps done, from 0, in these three.
  double EpochAt(int64_t step) const { return static_cast<double>(step) / steps_per_epoch; }
  int64_t WarmupSteps() const;
  int64_t EpochsDone(int64_t step) const;
  double LearningRate(int64_t step) const { return optim::LearningRate(schedule, step); }

  // Returns a sentence for people if the run ends before its warmup does, else nothing.
  std::string WarningOfWarmup() const;

  // The multiple of --eval_every_epochs that an evaluation after this step belongs to: the epochs done, rounded down.
  // The additional evaluation at the end of a run belongs to the last multiple. With --eval_every_steps, or if no
  // multiple ends with the step, since the run had another interval then, it is the epoch that ends, or EpochAt(step).
  // 0 if a run is evaluated at its end only.
  double EvaluatedEpoch(int64_t step) const;

  // Returns the epoch, counted from 1, in which the batch of this step (counted from 1) begins. A step whose batch is
  // partly of the next epoch ends the one that it begins in.
  int64_t EpochNumber(int64_t step) const { return EpochsDone(step - 1) + 1; }

  // Returns the first step, counted from 1, whose batch begins in `epoch`, counted from 0.
  int64_t FirstStepOf(int64_t epoch) const;

  // --stop_after_epochs_without_gain: returns the reason why the run ends at the step of `progress`, for people, or an
  // empty string if it goes on. The decision is a function of values that every rank knows and every checkpoint holds,
  // so all ranks decide alike, and a resumed run decides as if it had never been interrupted. The gap is measured
  // between the epochs that evaluations belong to (EvaluatedEpoch): with a patience of N epochs and an evaluation after
  // each epoch, the N-th evaluation in a row that does not beat the best one ends the run.
  std::string WhyStopsEarly(const Progress& progress) const;

  // Whether something is due after `step` steps. At the end of the run all but EndsEpoch are true, and the first step
  // is always logged.
  bool EndsEpoch(int64_t step) const;
  bool ShouldEvaluate(int64_t step) const;
  bool ShouldSave(int64_t step) const;
  bool ShouldLog(int64_t step) const;

 private:
  bool IsDue(int64_t step, double every_epochs, int64_t every_steps) const;
};

// `config` is resolved (config/resolve.h). An epoch has `units`, of which each step takes `units_per_step` (see
// SplitBatches): with a budget of tokens a global batch has no fixed number of samples. With `shards` an epoch has one
// of so many parts of the units; the plan takes all parts for equally large. Throws UsageError if the run would have no
// step, if the warmup is longer than --schedule_steps, or if the batch sizes disagree (ResolveBatch).
Plan MakePlan(const config::Config& config, int64_t train_samples, int world_size, int64_t units,
              int64_t units_per_step, int64_t shards = 1);

}  // namespace dtrain::loop
