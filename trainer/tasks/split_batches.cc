#include "trainer/tasks/split_batches.h"

#include <algorithm>

#include "data/pipeline/sampler.h"
#include "data/text/token_batches.h"

namespace dtrain::tasks {
namespace {

// --sampling: empty for the natural one.
std::optional<data::BalancedOrder> BalancedOrderOf(const data::RecordSource& source, const config::DataConfig& config) {
  if (config.sampling != "balanced") return std::nullopt;
  std::vector<int64_t> labels;
  for (int64_t index = 0; index < source.size(); ++index) labels.push_back(source.Label(index));
  return data::BalancedOrder(labels);
}

// Batches of rows that all have the same size.
class EqualRows : public SplitBatches {
 public:
  EqualRows(const data::RecordSource& source, const config::Config& config, int world)
      : SplitBatches(config, world),
        samples_(source.size()),
        sampler_(samples_, sizes().global_batch_size, config.batch.seed, data::ShuffleFromName(config.data.shuffle),
                 data::LastBatchFromName(config.data.last_batch), config.image.repeated_augmentation,
                 *data::ParseSizeSchedule(config.image.size_schedule), BalancedOrderOf(source, config.data)) {}

  int64_t units() const override { return samples_; }
  int64_t units_per_step() const override { return sizes().global_batch_size; }
  int64_t SamplesTaken(int64_t steps) const override { return steps * units_per_step(); }

  std::vector<std::vector<data::SampleRef>> EvaluationBatches(int64_t shard) const override {
    return data::EvaluationBatches(samples_, sizes().batch_size, shard, sizes().shards, evaluated_units());
  }

 private:
  std::vector<data::SampleRef> SamplesOf(const data::StepPart& part) const override {
    return data::RankShare(sampler_.GlobalBatch(part.step), part.shard, sizes().shards, part.micro_step,
                           sizes().grad_accum_steps);
  }

  const int64_t samples_;
  const data::TrainSampler sampler_;
};

// Batches of token blocks, each padded to the longest block of its batch.
class BlocksOfTokens : public SplitBatches {
 public:
  BlocksOfTokens(const DataSplit& split, const config::Config& config, int world)
      : SplitBatches(config, world),
        batches_(split.source->size(), split.length,
                 {.batch_size = sizes().batch_size,
                  .max_tokens = config.text.max_tokens,
                  .tokens_per_sample = split.tokens_per_sample,
                  .micro_batches = sizes().shards * sizes().grad_accum_steps,
                  .step_blocks = config.text.max_tokens > 0 ? 0 : sizes().global_batch_size,
                  .seed = config.batch.seed,
                  .shuffle = data::ShuffleFromName(config.data.shuffle),
                  .last_batch = data::LastBatchFromName(config.data.last_batch),
                  .shards = split.shards,
                  .balanced = BalancedOrderOf(*split.source, config.data)}) {}

  int64_t units() const override { return batches_.units(); }
  int64_t units_per_step() const override { return batches_.units_per_step(); }
  int64_t SamplesTaken(int64_t steps) const override { return batches_.BlocksTaken(steps); }

  std::vector<std::vector<data::SampleRef>> EvaluationBatches(int64_t shard) const override {
    return batches_.EvaluationBatches(shard, sizes().shards, evaluated_units());
  }

 private:
  std::vector<data::SampleRef> SamplesOf(const data::StepPart& part) const override {
    return batches_.Share(part.step, part.shard, sizes().shards, part.micro_step, sizes().grad_accum_steps);
  }

  const data::TokenBatches batches_;
};

}  // namespace

SplitBatches::SplitBatches(const config::Config& config, int world)
    : limit_val_steps_(config.run.limit_val_steps), sizes_(config::ResolveBatch(config.batch, world)) {}

data::BatchProvider SplitBatches::BatchesOf(config::ShardRange shards, int64_t steps) const {
  return [this, shards, steps](int64_t number) -> std::optional<data::BatchSamples> {
    const int64_t micro_step = number % sizes().grad_accum_steps, shard_of_rank = number / sizes().grad_accum_steps;
    const data::StepPart part = {.step = shard_of_rank / shards.count(),
                                 .shard = shards.first + shard_of_rank % shards.count(),
                                 .micro_step = micro_step,
                                 .micro_steps = sizes().grad_accum_steps};
    if (part.step >= steps) return std::nullopt;
    return data::BatchSamples(SamplesOf(part), part);
  };
}

std::vector<int64_t> SplitBatches::SamplesOfStep(int64_t step) const {
  std::vector<int64_t> samples;
  data::StepPart part = {.step = step - 1, .micro_steps = sizes().grad_accum_steps};
  for (part.shard = 0; part.shard < sizes().shards; ++part.shard) {
    for (part.micro_step = 0; part.micro_step < part.micro_steps; ++part.micro_step) {
      for (const data::SampleRef& sample : SamplesOf(part)) samples.push_back(sample.index);
    }
  }
  return samples;
}

std::optional<int64_t> SplitBatches::evaluated_units() const {
  constexpr int64_t kMostSteps = 1'000'000'000;  // more is no limit, and the product must not overflow
  if (limit_val_steps_ < 1 || limit_val_steps_ > kMostSteps) return std::nullopt;
  return limit_val_steps_ * units_per_step();
}

int64_t SplitBatches::EvaluationRounds(int64_t ranks) const {
  int64_t most = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const config::ShardRange range = config::DivisionOf(sizes_.shards, rank, ranks);
    int64_t rounds = 0;
    for (int64_t shard = range.first; shard < range.end; ++shard) {
      rounds += static_cast<int64_t>(EvaluationBatches(shard).size());
    }
    most = std::max(most, rounds);
  }
  return most;
}

int64_t SplitBatches::EvaluatedSamples() const {
  int64_t samples = 0;
  for (int64_t shard = 0; shard < sizes_.shards; ++shard) {
    for (const auto& batch : EvaluationBatches(shard)) samples += static_cast<int64_t>(batch.size());
  }
  return samples;
}

std::unique_ptr<SplitBatches> MakeTrainBatches(const DataSplit& split, const config::Config& config, int world) {
  if (split.length) return std::make_unique<BlocksOfTokens>(split, config, world);
  return std::make_unique<EqualRows>(*split.source, config, world);
}

std::unique_ptr<SplitBatches> MakeEvaluationBatches(const DataSplit& split, config::Config config, int world) {
  config.data.last_batch = "stream";
  config.data.sampling = "natural";
  return MakeTrainBatches(split, config, world);
}

}  // namespace dtrain::tasks
