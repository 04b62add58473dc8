// What depends on the data (classes, steps) is left to the plan.
#include "trainer/config/resolve.h"

#include <algorithm>
#include <cmath>

#include "trainer/config/batch_sizes.h"

namespace dtrain::config {
namespace {

constexpr double kCentreCropFraction = 0.875;  // 224 of 256, as ImageNet is evaluated

}  // namespace

void Resolve(Config& config, int world_size) {
  if (config.text.max_tokens > 0 && !config.batch.batch_size && !config.batch.global_batch_size) {
    constexpr int64_t kMostBlocks = 1'000'000;
    config.batch.batch_size = std::clamp<int64_t>(config.text.max_tokens / 2, 1, kMostBlocks);  // no bound of its own
  }
  const BatchSizes sizes = ResolveBatch(config.batch, world_size);
  config.batch.batch_size = sizes.batch_size;
  config.batch.grad_accum_steps = sizes.grad_accum_steps;
  config.batch.global_batch_size = sizes.global_batch_size;
  if (config.image.eval_resize == 0) {
    config.image.eval_resize = std::lround(static_cast<double>(config.image.size) / kCentreCropFraction);
  }
}

}  // namespace dtrain::config
