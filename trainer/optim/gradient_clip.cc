// The factor stays on the device, and gradients are always multiplied by it: a branch would make the host wait for it.
#include "trainer/optim/gradient_clip.h"

#include <ATen/ATen.h>

namespace dtrain::optim {

at::Tensor GradientNorm(const std::vector<at::Tensor>& gradients) {
  at::NoGradGuard no_grad;
  constexpr double kEuclidean = 2;
  const bool is_half = !gradients.empty() && gradients.front().scalar_type() == at::kHalf;
  // The norm of scaled gradients may exceed the range of half precision.
  const auto type = is_half ? std::optional(at::kFloat) : std::nullopt;
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, kEuclidean, type)));
}

at::Tensor ClipFactor(const at::Tensor& norm, double max_norm) {
  at::NoGradGuard no_grad;
  const at::Tensor quotient = (norm + 1e-6).reciprocal() * max_norm;  // as Python's torch divides a number by a tensor
  return at::clamp_max(quotient, 1.0);
}

}  // namespace dtrain::optim
