// Which samples of a split make which batch, for training, evaluation and benchmarks alike. An epoch consists of units,
// of which a step takes a fixed number: samples, or with a budget of tokens whole batches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/sample_decoder.h"
#include "trainer/config/config.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

class SplitBatches {
 public:
  virtual ~SplitBatches() = default;

  virtual int64_t units() const = 0;
  virtual int64_t units_per_step() const = 0;

  // Training: how many samples the first `steps` steps take, over all ranks.
  virtual int64_t SamplesTaken(int64_t steps) const = 0;

  // Training: what a rank takes in a micro-step of a step (from 0). Safe to call from many threads.
  virtual std::vector<data::SampleRef> Share(int64_t step, int64_t rank, int64_t micro_step) const = 0;

  // Evaluation: every sample once over all ranks.
  virtual std::vector<std::vector<data::SampleRef>> EvaluationBatches(int64_t rank) const = 0;
  // The most that any rank has.
  int64_t EvaluationRounds() const;

 protected:
  explicit SplitBatches(int64_t world) : world_(world) {}
  int64_t world() const { return world_; }

 private:
  const int64_t world_;
};

// For `world` ranks; `split` outlives the result. Sizes are those of ResolveBatch. Throws DataError where
// --last_batch=drop leaves no batch.
std::unique_ptr<SplitBatches> MakeTrainBatches(const DataSplit& split, const config::Config& config, int world);

// The same for EvaluationBatches alone: nothing is dropped.
std::unique_ptr<SplitBatches> MakeEvaluationBatches(const DataSplit& split, config::Config config, int world);

}  // namespace dtrain::loop
