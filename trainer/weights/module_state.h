// The named tensors of a model: what is updated, what ranks exchange, what is saved.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "trainer/checkpoint/store.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::loop {

// Those that learn: see freeze.h.
std::vector<optim::NamedTensor> ParametersOf(const torch::nn::Module& module);

// BatchNorm's means and variances, of modules in training mode; not its counters.
std::vector<at::Tensor> RunningStatistics(const torch::nn::Module& module);

// Parameters and buffers by torchvision's names; shared, not copied.
checkpoint::NamedTensors StateOf(const torch::nn::Module& module);

// Copies `saved` into the tensors of the same names. Throws StorageError naming what is missing or has another shape.
void CopyInto(const checkpoint::NamedTensors& destination, const checkpoint::NamedTensors& saved);

}  // namespace dtrain::loop
