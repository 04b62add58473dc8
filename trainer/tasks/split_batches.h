// Decides which samples of a split make which batch, for training, evaluation and benchmarks alike. An epoch consists
// of units, of which each step takes a fixed number. A unit is a sample or, with a budget of tokens, a whole batch.
// A shard is the part of a step that one rank has, or one of --elastic_shards, of which a rank may have several.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/pipeline/loader.h"
#include "data/record_source.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/config.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::tasks {

class SplitBatches {
 public:
  virtual ~SplitBatches() = default;

  virtual int64_t units() const = 0;  // with shards, of as many epochs as there are shards
  virtual int64_t units_per_step() const = 0;

  // Training: the number of samples that the first `steps` steps take, over all ranks.
  virtual int64_t SamplesTaken(int64_t steps) const = 0;

  // Training: returns, for each number from 0 up to the end of step `steps`, a batch of the rank that has these shards:
  // for each step its shards, for each shard its micro-steps. Valid as long as this object; thread-safe.
  data::BatchProvider BatchesOf(config::ShardRange shards, int64_t steps) const;
  // Training: returns the samples of the global batch of a step, counted from 1. A sample that cannot be read is
  // listed, not the one that takes its place.
  std::vector<int64_t> SamplesOfStep(int64_t step) const;
  const config::BatchSizes& sizes() const { return sizes_; }

  // Evaluation: the batches of one shard. Over all shards each sample occurs once, or with --limit_val_steps only as
  // many units as so many steps take, spread evenly over the split. Which ones depends on the global batch, but not on
  // the number of ranks that share it.
  virtual std::vector<std::vector<data::SampleRef>> EvaluationBatches(int64_t shard) const = 0;
  // The largest number of evaluation batches that one of `ranks` ranks has.
  int64_t EvaluationRounds(int64_t ranks) const;
  // The number of samples that all ranks together evaluate.
  int64_t EvaluatedSamples() const;

 protected:
  SplitBatches(const config::Config& config, int world);
  // The most units that an evaluation takes over all ranks; empty: all.
  std::optional<int64_t> evaluated_units() const;

 private:
  // Training: the samples of one shard in one micro-step.
  virtual std::vector<data::SampleRef> SamplesOf(const data::StepPart& part) const = 0;

  const int64_t limit_val_steps_;
  const config::BatchSizes sizes_;
};

// Makes the batches of `world` ranks, or of elastic_shards (BatchSizes::shards), with the sizes of ResolveBatch.
// `split` must outlive the result. Throws DataError if --last_batch=drop leaves no batch.
std::unique_ptr<SplitBatches> MakeTrainBatches(const DataSplit& split, const config::Config& config, int world);

// The same, to be used for EvaluationBatches alone: no sample is dropped.
std::unique_ptr<SplitBatches> MakeEvaluationBatches(const DataSplit& split, config::Config config, int world);

}  // namespace dtrain::tasks
