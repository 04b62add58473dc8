// Which blocks of tokens make which batch: as the sampler says it for samples, but with rows as long as the longest of
// their batch, and with budgets of tokens. Without a budget (--max_tokens) a micro-batch has batch_size blocks. With
// one the batch is the unit: blocks are cut once into batches whose blocks are alike in length, each as large as the
// budget allows; epochs permute the batches, and a global step takes one for each rank and micro-step.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/pipeline/sampler.h"

namespace dtrain::data {

struct TokenBatchOptions {
  int64_t batch_size = 0;  // blocks of a micro-batch at most; 0: max_tokens alone bounds it
  int64_t max_tokens = 0;  // blocks × tokens of a row of a micro-batch at most, ≥ tokens_per_sample; 0: no budget
  int64_t tokens_per_sample = 0;  // no row is longer
  int64_t micro_batches = 1;      // of a global step: ranks × accumulation
  int64_t seed = 0;
  Shuffle shuffle = Shuffle::kGlobal;
  LastBatch last_batch = LastBatch::kStream;
};

class TokenBatches {
 public:
  // `length(i)`: tokens of block i with its <s>, at most tokens_per_sample; asked for as long as this lives. Throws
  // what TrainSampler throws.
  TokenBatches(int64_t blocks, std::function<int64_t(int64_t)> length, const TokenBatchOptions& options);

  // What an epoch consists of and a step takes: blocks, or with a budget batches. Hence N and G of DESIGN's formulas.
  int64_t units() const { return HasBudget() ? static_cast<int64_t>(batches_.size()) : blocks_; }
  int64_t units_per_step() const { return options_.micro_batches * (HasBudget() ? 1 : options_.batch_size); }

  // Training: the blocks of one micro-batch.
  std::vector<SampleRef> Share(int64_t step, int64_t rank, int64_t world, int64_t micro_step,
                               int64_t accumulation) const;

  // How many blocks the first `steps` steps take. With --last_batch=drop and a budget it looks at each of them.
  int64_t BlocksTaken(int64_t steps) const;

  // Evaluation: every block once over all ranks, in file order, in epoch 0.
  std::vector<std::vector<SampleRef>> EvaluationBatches(int64_t rank, int64_t world) const;

 private:
  bool HasBudget() const { return options_.max_tokens > 0; }
  // Some blocks of an order, which is file order where it is empty: [begin, end).
  struct Range {
    int64_t begin = 0, end = 0;
  };
  std::vector<int64_t> OrderToCut() const;
  std::vector<Range> Cut(Range range, const std::vector<int64_t>& order) const;
  void Append(Range range, const std::vector<int64_t>& order, int64_t epoch, std::vector<SampleRef>& samples) const;
  int64_t RowLength(int64_t longest) const;
  void SetRowLength(std::vector<SampleRef>& samples) const;

  const TokenBatchOptions options_;
  const int64_t blocks_;
  const std::function<int64_t(int64_t)> length_;
  const std::vector<int64_t> order_;  // that batches_ are cut from; empty: file order
  const std::vector<Range> batches_;  // empty without a budget
  const TrainSampler sampler_;        // of units
};

}  // namespace dtrain::data
