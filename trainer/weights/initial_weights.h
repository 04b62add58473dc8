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

// Where the weights are that a path names: a safetensors file, or a folder as Hugging Face's save_pretrained leaves it.
struct WeightsPlace {
  std::string file;
  std::string model_config = {};  // the content of the folder's config.json; empty: there is none
};

// Throws UsageError where there is nothing of the kind, or it is PyTorch's.
WeightsPlace FindWeights(const std::string& path);

// --init_weights, its names without wrappers; tensors of text models have the names that models/weight_names.h gives
// them. Throws as FindWeights does, and DataError where the file is damaged.
checkpoint::SafetensorsContent ReadInitialWeights(const config::ModelConfig& config);

// Weights of whatever naming as the model of this name has them.
checkpoint::NamedTensors WithOwnNames(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                                      const std::string& origin);

// Rows of the classifier in `weights`; 0 where none is recognised.
int64_t NumClassesOf(const checkpoint::NamedTensors& weights, const std::string& model);

// Copies `weights` into the parameters and buffers of the same names. With --strict_weights, throws UsageError listing
// what is missing, superfluous or of another shape; without it, those are left as they are and named in a warning, but
// weights of which nothing fits are refused all the same. `num_batches_tracked` may always be missing: older files lack
// it.
void ApplyInitialWeights(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                         torch::nn::Module& module);

}  // namespace dtrain::loop
