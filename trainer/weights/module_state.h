// The tensors of a model that the optimizer updates, that ranks exchange, and that checkpoints hold.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "trainer/checkpoint/store.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::weights {

// Returns the parameters that learn, that is, those that are not frozen (freeze.h).
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
