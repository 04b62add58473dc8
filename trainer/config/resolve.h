// From what was said to what is meant: values that follow from others are filled in, so that --print_config and
// config.json show what a run really uses.
#pragma once

#include <cstdint>

#include "trainer/config/config.h"

namespace dtrain::config {

// The peak learning rate that was not said. SGD learns with 0.1 for 256 samples; where --lr_base_batch scales the rate
// anyway, it is 0.1 at that size. Adam's does not grow with the batch.
double DefaultLearningRate(const OptimizerConfig& optimizer, int64_t global_batch_size);

// What --lr is multiplied by for this global batch: --lr_base_batch and --lr_scaling.
double LearningRateFactor(const OptimizerConfig& optimizer, int64_t global_batch_size);

// The short side that --eval_resize has where it was not said.
int64_t DefaultEvalResize(int64_t image_size);

// Fills the three batch sizes, --lr, --eval_resize, --decay_norm_and_bias where it was not said, and the precision that
// --memory_efficient_fp16 implies. Call it once, on a configuration without problems.
void Resolve(Config& config, int world_size);

}  // namespace dtrain::config
