// The sizes are derived first, and then a single check compares their product with the global batch. It catches
// divisions with a remainder as well as three given sizes that disagree.
#include "trainer/config/batch_sizes.h"

#include <algorithm>
#include <string>

#include "trainer/config/flags.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

BatchSizes Derive(const BatchConfig& batch, int64_t world) {
  BatchSizes sizes;
  sizes.batch_size = batch.batch_size.value_or(sizes.batch_size);
  sizes.grad_accum_steps = batch.grad_accum_steps.value_or(sizes.grad_accum_steps);
  sizes.global_batch_size = batch.global_batch_size.value_or(sizes.batch_size * world * sizes.grad_accum_steps);
  sizes.shards = world;
  if (!batch.global_batch_size) return sizes;
  if (!batch.batch_size) {
    sizes.batch_size = sizes.global_batch_size / (world * sizes.grad_accum_steps);
  } else if (!batch.grad_accum_steps) {
    sizes.grad_accum_steps = sizes.global_batch_size / (world * sizes.batch_size);
  }
  return sizes;
}

// A batch is a shard, the largest one if they are unequal.
BatchSizes DeriveElastic(const BatchConfig& batch) {
  const int64_t shards = *batch.elastic_shards;
  BatchSizes sizes{.shards = shards, .elastic = true};
  sizes.global_batch_size = batch.global_batch_size.value_or(shards * batch.batch_size.value_or(sizes.batch_size));
  sizes.batch_size = (sizes.global_batch_size + shards - 1) / shards;
  return sizes;
}

bool InRange(const BatchConfig& batch, int world_size) {
  const auto in = [](const std::optional<int64_t>& size, int64_t limit) {
    return !size || (*size > 0 && *size <= limit);
  };
  return world_size > 0 && world_size <= kMaxRanks && in(batch.batch_size, kMostSamples) &&
         in(batch.grad_accum_steps, kMostMicroSteps) && in(batch.global_batch_size, kMostInAll);
}

std::string Times(const std::optional<int64_t>& size, const std::string& name) {
  return size ? " x " + name + " (" + std::to_string(*size) + ")" : "";
}

constexpr int64_t kMostDefaultShards = 8;

}  // namespace

std::optional<Problem> BatchMistake(const BatchConfig& batch, int world_size) {
  if (!InRange(batch, world_size)) {
    return Problem{.flag = "batch_size",
                   .expected = "batch sizes and a world size of 1 or more",
                   .hint = "see the ranges in --help"};
  }
  const BatchSizes sizes = Derive(batch, world_size);
  if (sizes.global_batch_size > kMostInAll || sizes.batch_size > kMostSamples ||
      sizes.grad_accum_steps > kMostMicroSteps) {
    return Problem{.flag = "global_batch_size",
                   .value = std::to_string(sizes.global_batch_size),
                   .expected = std::to_string(kMostInAll) + " at most, in no more than " +
                               std::to_string(kMostMicroSteps) + " micro-steps of " + std::to_string(kMostSamples) +
                               " samples a rank",
                   .hint = "change it, --batch_size or --grad_accum_steps"};
  }
  const int64_t product = sizes.batch_size * world_size * sizes.grad_accum_steps;
  if (sizes.global_batch_size == product) return std::nullopt;
  const std::string terms = "world size (" + std::to_string(world_size) + ")" + Times(batch.batch_size, "batch_size") +
                            Times(batch.grad_accum_steps, "grad_accum_steps");
  const bool all_given = batch.batch_size && batch.grad_accum_steps;
  int64_t step = world_size * batch.batch_size.value_or(1) * batch.grad_accum_steps.value_or(1);
  const int64_t fitting = all_given ? step : std::max<int64_t>(1, sizes.global_batch_size / step) * step;
  return Problem{.flag = "global_batch_size",
                 .value = std::to_string(sizes.global_batch_size),
                 .expected = (all_given ? "exactly " : "a multiple of ") + terms + " = " + std::to_string(step),
                 .hint = "--global_batch_size=" + std::to_string(fitting) + " would fit" +
                         (all_given ? ", or leave one of the three out" : "")};
}

BatchSizes ResolveBatch(const BatchConfig& batch, int world_size) {
  if (batch.elastic_shards) return DeriveElastic(batch);
  if (const auto problem = BatchMistake(batch, world_size)) throw UsageError(Describe({*problem}));
  return Derive(batch, world_size);
}

std::optional<BatchSizes> ShareGlobalBatch(int64_t global_batch_size, int64_t batch_size, int64_t world_size) {
  if (global_batch_size < 1 || batch_size < 1 || global_batch_size % world_size != 0) return std::nullopt;
  const int64_t share = global_batch_size / world_size;
  int64_t micro_batch = std::min(batch_size, share);
  while (share % micro_batch != 0) --micro_batch;
  if (share / micro_batch > kMostMicroSteps) return std::nullopt;
  return BatchSizes{micro_batch, share / micro_batch, global_batch_size};
}

bool IsElastic(const Config& config) { return config.ranks.deterministic == "elastic"; }

int64_t ElasticShards(const Config& config) {
  if (config.batch.elastic_shards) return *config.batch.elastic_shards;
  if (config.text.max_tokens > 0) return kMostDefaultShards;
  return std::clamp<int64_t>(config.batch.global_batch_size.value_or(1) / 2, 1, kMostDefaultShards);
}

ShardRange DivisionOf(int64_t total, int64_t rank, int64_t world_size) {
  return {.total = total, .first = rank * total / world_size, .end = (rank + 1) * total / world_size};
}

}  // namespace dtrain::config
