// The factor stays on the device and multiplies always: branching on it would make the host wait in every step.
#include "trainer/optim/gradient_clip.h"

#include <ATen/ATen.h>

namespace dtrain::optim {

at::Tensor GradientNorm(const std::vector<at::Tensor>& gradients) {
  at::NoGradGuard no_grad;
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
}

at::Tensor ClipFactor(const at::Tensor& norm, double max_norm) {
  at::NoGradGuard no_grad;
  return at::clamp_max(max_norm / (norm + 1e-6), 1.0);
}

}  // namespace dtrain::optim
