// --deterministic=elastic divides the global batch into shards, whose number does not depend on the number of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/problem.h"

namespace dtrain::config {

// The parts of the global batch that one rank computes: [first, end) of `total`.
struct ShardRange {
  int64_t total = 1, first = 0, end = 1;
  int64_t count() const { return end - first; }
};

bool IsElastic(const Config& config);

// The number of shards of an elastic run: as given, or by default.
int64_t ElasticShards(const Config& config);

// Adds the problems of an elastic run on `world_size` ranks, and those of --elastic_shards in any other run.
void CheckElastic(const Config& config, int world_size, std::vector<Problem>& problems);

// Divides `total` shards among `world_size` ranks, each of which has a contiguous range of them. Ranks may have unequal
// numbers, and none if there are fewer shards than ranks.
ShardRange DivisionOf(int64_t total, int64_t rank, int64_t world_size);

}  // namespace dtrain::config
