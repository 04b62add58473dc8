// The three batch sizes: global = batch_size × world size × grad_accum_steps. Two of them determine the third. This
// rule is apart from the others (problems.h) because the trainer needs its result, not only its verdict. With
// --deterministic=elastic the global batch is divided into shards, whose number does not depend on that of the ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/config/config.h"
#include "trainer/config/problems.h"

namespace dtrain::config {

// The most that the flags allow, which also keeps their products from overflowing.
inline constexpr int64_t kMostSamples = 1'000'000;  // of a micro-step
inline constexpr int64_t kMostMicroSteps = 1'000'000;
inline constexpr int64_t kMostInAll = 1'000'000'000;  // of the global batch

struct BatchSizes {
  int64_t batch_size = 32;  // per device and micro-step
  int64_t grad_accum_steps = 1;
  int64_t global_batch_size = 32;
  // The parts of the global batch that ranks share (DivisionOf): one for each rank, or elastic_shards.
  int64_t shards = 1;
  bool elastic = false;  // the shards are --elastic_shards: no result may depend on who computes them
};

// Returns the problem if the given sizes do not fit each other or the number of ranks, else empty.
std::optional<Problem> BatchMistake(const BatchConfig& batch, int world_size);

// Fills in the sizes that were not given. With --global_batch_size the missing one is derived (if both are missing,
// grad_accum_steps is 1); without it batch_size is 32 and grad_accum_steps 1. With elastic_shards, batch_size is the
// largest shard, whatever the number of ranks. Throws UsageError if BatchMistake finds a problem.
BatchSizes ResolveBatch(const BatchConfig& batch, int world_size);

// Shares the global batch of a run among another number of ranks, in micro-batches of `batch_size` samples, or of the
// next smaller number with which no rank has a remainder. Returns empty if the ranks cannot have equal shares.
std::optional<BatchSizes> ShareGlobalBatch(int64_t global_batch_size, int64_t batch_size, int64_t world_size);

// The parts of the global batch that one rank computes: [first, end) of `total`.
struct ShardRange {
  int64_t total = 1, first = 0, end = 1;
  int64_t count() const { return end - first; }
};

bool IsElastic(const Config& config);

// The number of shards of an elastic run: as given, or by default.
int64_t ElasticShards(const Config& config);

// Divides `total` shards among `world_size` ranks, each of which has a contiguous range of them. Ranks may have unequal
// numbers, and none if there are fewer shards than ranks.
ShardRange DivisionOf(int64_t total, int64_t rank, int64_t world_size);

}  // namespace dtrain::config
