// Global norm of the gradients, and clipping to it (torch.nn.utils.clip_grad_norm_).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace dtrain::optim {

// ‖g‖₂ over all gradients together, as a scalar on their device.
at::Tensor GradientNorm(const std::vector<at::Tensor>& gradients);

// What gradients of this norm are to be multiplied by: min(1, max_norm / (norm + 1e-6)), a scalar on their device; the
// same bits as in Python, where the quotient is a product with the reciprocal.
at::Tensor ClipFactor(const at::Tensor& norm, double max_norm);

}  // namespace dtrain::optim
