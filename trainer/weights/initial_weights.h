// Weights from a file into a model: --init_weights.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

// --init_weights, under the names that the model has here. Throws as FindWeights and ReadWeightsFile (weight_files.h)
// do, and UsageError where --weights_naming says something else than the names do.
checkpoint::SafetensorsContent ReadInitialWeights(const config::Config& config);

// Weights of whatever naming as the model of this name has them.
checkpoint::NamedTensors WithOwnNames(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                                      const std::string& origin);

// Rows of the classifier in `weights`; 0 where none is recognised.
int64_t NumClassesOf(const checkpoint::NamedTensors& weights, const std::string& model);

// Whether a training may have other classes than its initial weights.
enum class Classifier { kMustFit, kMayBeginAnew };

// Copies `weights` into the parameters and buffers of the same names. With --strict_weights, throws UsageError listing
// what is missing, superfluous or of another shape; without it, those are left as they are and named in a warning, but
// weights of which nothing fits are refused all the same. `num_batches_tracked` may always be missing: older files lack
// it. A classifier that may begin anew is left as it was drawn where `weights` know another number of classes, aloud.
void ApplyInitialWeights(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                         torch::nn::Module& module, Classifier classifier = Classifier::kMustFit);

}  // namespace dtrain::loop
