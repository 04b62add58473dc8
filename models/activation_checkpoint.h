// Trades time for memory: the activations of a part of a network are not kept, but computed again in the backward pass
// (Chen et al. 2016, arXiv:1604.06174).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace dtrain::models {

// A part of a network, from a tensor to a tensor. What it captures must live until the backward pass.
using Part = std::function<at::Tensor(const at::Tensor&)>;

// Returns part(x), of which only x is kept for the backward pass. `parameters` are those that the part uses; their
// gradients come as if the part had run once. The second run has the random draws and the autocast of the first. The
// result supports one backward pass.
at::Tensor Checkpointed(const Part& part, const at::Tensor& x, const std::vector<at::Tensor>& parameters);

}  // namespace dtrain::models
