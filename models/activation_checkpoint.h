// Trades time for memory: what a part of a network computes is computed again in the backward pass instead of being
// kept (Chen et al. 2016, arXiv:1604.06174).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace dtrain::models {

// A part of a network: a tensor to a tensor. What it captures must live until the backward pass.
using Part = std::function<at::Tensor(const at::Tensor&)>;

// part(x), and of what it computes only x is kept. `parameters` are those that the part uses: their gradients come as
// if the part had run once. Random draws and autocast are repeated as they were. For one backward pass.
at::Tensor Checkpointed(const Part& part, const at::Tensor& x, const std::vector<at::Tensor>& parameters);

}  // namespace dtrain::models
