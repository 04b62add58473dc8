// The global norm of gradients, and clipping by it (torch.nn.utils.clip_grad_norm_).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace dtrain::optim {

// Returns ‖g‖₂ over all gradients together (at least one), a scalar on their device: float32 for float16 gradients,
// else of their type.
at::Tensor GradientNorm(const std::vector<at::Tensor>& gradients);

// Returns the factor that clips gradients of this norm, min(1, max_norm / (norm + 1e-6)), a scalar on the device of
// `norm`. It has the same bits as in Python, where torch computes the quotient as a product with the reciprocal.
at::Tensor ClipFactor(const at::Tensor& norm, double max_norm);

}  // namespace dtrain::optim
