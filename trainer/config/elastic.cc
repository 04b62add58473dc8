// The global batch must be given: derived from --batch_size, it would be another one for every number of ranks.
#include "trainer/config/elastic.h"

#include <algorithm>
#include <string>

#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

constexpr int64_t kMostDefaultShards = 8;
constexpr char kWith[] = " with --deterministic=elastic";

// Refuses what would add numbers in an order, or with a rounding, that depends on the ranks.
void CheckCompanions(const Config& config, std::vector<Problem>& problems) {
  const RanksConfig& ranks = config.ranks;
  if (config.batch.grad_accum_steps.value_or(1) != 1) {
    problems.push_back({.flag = "grad_accum_steps",
                        .expected = std::string("1") + kWith,
                        .hint = "a rank computes its shards one after another; --elastic_shards makes them smaller"});
  }
  if (ranks.grad_compression != "none") {
    problems.push_back({.flag = "grad_compression",
                        .expected = std::string("none") + kWith,
                        .hint = "gradients are added without rounding them to fewer digits"});
  }
  if (ranks.sync_bn) {
    problems.push_back(
        {.flag = "sync_bn",
         .expected = std::string("false") + kWith,
         .hint = "batch normalisation sees a shard, whatever the number of ranks; fewer --elastic_shards make "
                 "it larger"});
  }
  if (ranks.cuda_graphs == "on") {
    problems.push_back(
        {.flag = "cuda_graphs", .expected = std::string("auto or off") + kWith, .hint = "its steps are not recorded"});
  }
}

void CheckShards(const Config& config, int world_size, std::vector<Problem>& problems) {
  const BatchConfig& batch = config.batch;
  const int64_t shards = ElasticShards(config);
  const std::string shown = std::to_string(shards);
  if (config.run.mode == "train" && shards < world_size) {
    problems.push_back({.flag = "elastic_shards",
                        .value = shown,
                        .expected = "at least the number of ranks (" + std::to_string(world_size) + ")",
                        .hint = "each rank computes at least one shard of the global batch"});
  }
  if (config.text.max_tokens > 0 || !batch.global_batch_size) return;  // a shard is what fits into the budget
  const int64_t smallest = *batch.global_batch_size / shards;
  const int64_t largest = smallest + (*batch.global_batch_size % shards > 0 ? 1 : 0);
  const bool mixes = config.image.mixup > 0 || config.image.cutmix > 0;
  const int64_t least = mixes ? 2 : 1;
  if (smallest < least) {
    const int64_t most = *batch.global_batch_size / least;
    problems.push_back({.flag = "elastic_shards",
                        .value = shown,
                        .expected = "at most " + std::to_string(most),
                        .hint = mixes ? "an image is mixed with another one of its shard" : "no shard may be empty"});
  } else if (batch.batch_size && largest > *batch.batch_size) {
    problems.push_back(
        {.flag = "batch_size",
         .expected = std::to_string(largest) + " or more, the samples of a shard",
         .hint = "or --elastic_shards=" + std::to_string((*batch.global_batch_size - 1) / *batch.batch_size + 1)});
  }
}

}  // namespace

bool IsElastic(const Config& config) { return config.ranks.deterministic == "elastic"; }

int64_t ElasticShards(const Config& config) {
  if (config.batch.elastic_shards) return *config.batch.elastic_shards;
  if (config.text.max_tokens > 0) return kMostDefaultShards;
  return std::clamp<int64_t>(config.batch.global_batch_size.value_or(1) / 2, 1, kMostDefaultShards);
}

void CheckElastic(const Config& config, int world_size, std::vector<Problem>& problems) {
  if (!IsElastic(config)) {
    if (!WasGiven(config, "elastic_shards")) return;
    problems.push_back({.flag = "elastic_shards",
                        .expected = "--deterministic=elastic with it",
                        .hint = "other runs divide the batch among the ranks"});
    return;
  }
  CheckCompanions(config, problems);
  if (!config.batch.global_batch_size && config.text.max_tokens == 0) {
    problems.push_back({.flag = "global_batch_size",
                        .expected = std::string("a number") + kWith,
                        .hint = "the batch must not depend on the number of ranks"});
    return;
  }
  CheckShards(config, world_size, problems);
}

ShardRange DivisionOf(int64_t total, int64_t rank, int64_t world_size) {
  return {.total = total, .first = rank * total / world_size, .end = (rank + 1) * total / world_size};
}

}  // namespace dtrain::config
