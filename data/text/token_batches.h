// Assigns blocks of tokens to batches, as the sampler does for samples, but with rows as long as the longest of their
// batch, and with budgets of tokens. Without a budget (--max_tokens) a micro-batch has batch_size blocks. With a
// budget, the blocks are cut once into batches of similar lengths, each as large as the budget allows. Epochs then
// permute the batches, and a global step takes one for each rank and micro-step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/pipeline/sampler.h"

namespace dtrain::data {

struct TokenBatchOptions {
  int64_t batch_size = 0;  // most blocks in a micro-batch; 0: only max_tokens limits it
  int64_t max_tokens =
      0;  // most tokens (blocks × row length) in a micro-batch, at least tokens_per_sample; 0: no limit
  int64_t tokens_per_sample = 0;  // longest row
  int64_t micro_batches = 1;      // micro-batches in a global step: ranks × accumulation
  int64_t step_blocks = 0;        // blocks of a step, if micro-batches are not all full; 0: micro_batches × batch_size
  int64_t seed = 0;
  Shuffle shuffle = Shuffle::kGlobal;
  LastBatch last_batch = LastBatch::kStream;
  std::vector<int64_t> shards = {};  // blocks of each, of which epochs take one in turn; empty: all blocks are one
  std::optional<BalancedOrder> balanced = {};  // takes the place of kGlobal; not with max_tokens
};

class TokenBatches {
 public:
  // `length(i)` returns the tokens of block i with its <s>, at most tokens_per_sample, and is called throughout the
  // lifetime of this object. Throws std::invalid_argument if neither batch_size nor max_tokens is set,
  // tokens_per_sample or micro_batches is below 1, or `balanced` is given with a budget; and what TrainSampler throws.
  TokenBatches(int64_t blocks, std::function<int64_t(int64_t)> length, const TokenBatchOptions& options);

  // The units of an epoch (with shards, of as many epochs as there are shards) and of a step: batches if there is a
  // budget, else blocks.
  int64_t units() const { return HasBudget() ? static_cast<int64_t>(batches_.size()) : blocks_; }
  int64_t units_per_step() const {
    if (!HasBudget() && options_.step_blocks > 0) return options_.step_blocks;
    return options_.micro_batches * (HasBudget() ? 1 : options_.batch_size);
  }

  // Training: returns the blocks of one micro-batch.
  std::vector<SampleRef> Share(int64_t step, int64_t rank, int64_t world, int64_t micro_step,
                               int64_t accumulation) const;

  // Returns the number of blocks in the first `steps` steps. With --last_batch=drop and a budget, this looks at each
  // step.
  int64_t BlocksTaken(int64_t steps) const;

  // Evaluation: returns the batches of a rank. Each block occurs once over all ranks, in file order, in epoch 0. With a
  // `limit` there are at most so many units over all ranks, which are spread evenly.
  std::vector<std::vector<SampleRef>> EvaluationBatches(int64_t rank, int64_t world,
                                                        std::optional<int64_t> limit = {}) const;

 private:
  bool HasBudget() const { return options_.max_tokens > 0; }
  // The blocks [begin, end) of an order; an empty order means file order.
  struct Range {
    int64_t begin = 0, end = 0;
  };
  std::vector<Range> Shards() const;
  std::vector<int64_t> OrderToCut() const;
  std::vector<Range> CutShards() const;
  std::vector<int64_t> ShardUnits() const;
  std::vector<Range> Cut(Range range, const std::vector<int64_t>& order) const;
  void Append(Range range, const std::vector<int64_t>& order, int64_t epoch, std::vector<SampleRef>& samples) const;
  int64_t RowLength(int64_t longest) const;
  void SetRowLength(std::vector<SampleRef>& samples) const;

  const TokenBatchOptions options_;
  const int64_t blocks_;
  const std::function<int64_t(int64_t)> length_;
  const std::vector<int64_t> order_;  // order from which batches_ are cut; empty: file order
  const std::vector<Range> batches_;  // empty without a budget
  const TrainSampler sampler_;        // order of units
};

}  // namespace dtrain::data
