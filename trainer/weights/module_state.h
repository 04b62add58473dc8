// The tensors of a model: whether there is room for them, and which of them the optimizer updates, ranks exchange, and
// checkpoints hold.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "models/layers.h"
#include "trainer/checkpoint/store.h"
#include "trainer/config/config.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::weights {

// Throws Error (kOutOfMemory) if this machine has less memory than the weights of a model need.
void RequireRoomFor(const torch::nn::Module& model);

// Returns what `make` returns, a pointer to a model. Flags and files name its sizes, and any of them can be a thousand
// times too large: looks at its shapes first, and throws as RequireRoomFor does before anything is allocated.
template <typename Make>
auto MadeIfItFits(const Make& make) {
  const bool wants_shapes_alone = models::DeviceOfNewWeights().is_meta();
  {
    const models::ShapesAlone shapes;
    auto model = make();
    RequireRoomFor(*model);
    if (wants_shapes_alone) return model;
  }
  return make();
}

// --freeze: turns gradients off for the parameters of the modules that `config.freeze` names, so that ParametersOf and
// RunningStatistics leave them out. Puts frozen batch normalisation into evaluation mode: it normalises with its
// running statistics and does not change them. Dropout stays active. Throws UsageError if there is no module of such a
// name, with a list of modules, and if nothing is left to learn. `head`: the module that is not part of the backbone.
void Freeze(const config::ModelConfig& config, const std::string& head, torch::nn::Module& module);

// Returns the parameters that learn, that is, those that are not frozen.
std::vector<optim::NamedTensor> ParametersOf(const torch::nn::Module& module);

// Returns BatchNorm's running means and variances of the modules in training mode, without its counters.
std::vector<at::Tensor> RunningStatistics(const torch::nn::Module& module);

// Returns those counters.
std::vector<at::Tensor> BatchCounters(const torch::nn::Module& module);

// Returns all parameters and buffers under the names of their modules; shared, not copied.
checkpoint::NamedTensors StateOf(const torch::nn::Module& module);

// Copies `saved` into the tensors of the same names in `destination`. Throws StorageError naming a tensor that is
// missing or has another shape or dtype.
void CopyInto(const checkpoint::NamedTensors& destination, const checkpoint::NamedTensors& saved);

}  // namespace dtrain::weights
