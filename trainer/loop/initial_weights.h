// Weights from a safetensors file into a model: --init_weights.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

// Takes off what other programs put in front of all names ("module.", "_orig_mod.", "model.", several of them too), and
// returns it.
std::string TakeOffWrappers(checkpoint::NamedTensors& weights);

// The file of --init_weights, its names without wrappers. Throws UsageError where there is no such file or it is
// PyTorch's, DataError where it is damaged.
checkpoint::SafetensorsContent ReadInitialWeights(const config::ModelConfig& config);

// Rows of the classifier in `weights`; 0 where none is recognised.
int64_t NumClassesOf(const checkpoint::NamedTensors& weights, const std::string& model);

// Copies `weights` into the parameters and buffers of the same names. With --strict_weights, throws UsageError listing
// what is missing, superfluous or of another shape; without it, those are left as they are and named in a warning, but
// weights of which nothing fits are refused all the same. `num_batches_tracked` may always be missing: older files lack
// it.
void ApplyInitialWeights(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                         torch::nn::Module& module);

}  // namespace dtrain::loop
