// The factor stays on the device and multiplies always: branching on it would make the host wait in every step.
#include "trainer/optim/gradient_clip.h"

#include <ATen/ATen.h>

namespace dtrain::optim {

at::Tensor GradientNorm(const std::vector<at::Tensor>& gradients) {
  at::NoGradGuard no_grad;
  constexpr double kEuclidean = 2;
  const bool is_half = !gradients.empty() && gradients.front().scalar_type() == at::kHalf;
  // Of scaled gradients it would not fit into their own type.
  const auto type = is_half ? std::optional(at::kFloat) : std::nullopt;
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, kEuclidean, type)));
}

at::Tensor ClipFactor(const at::Tensor& norm, double max_norm) {
  at::NoGradGuard no_grad;
  const at::Tensor quotient = (norm + 1e-6).reciprocal() * max_norm;  // a number by a tensor, as Python's torch has it
  return at::clamp_max(quotient, 1.0);
}

}  // namespace dtrain::optim
