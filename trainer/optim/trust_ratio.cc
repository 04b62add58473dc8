#include "trainer/optim/trust_ratio.h"

#include <ATen/ATen.h>

namespace dtrain::optim {

at::Tensor NormOfEach(const std::vector<at::Tensor>& tensors) { return at::stack(at::_foreach_norm(tensors)); }

at::Tensor TrustOrOne(const at::Tensor& ratios, const at::Tensor& weight_norms, const at::Tensor& step_norms) {
  return at::where(weight_norms.gt(0).logical_and(step_norms.gt(0)), ratios, 1.0);
}

}  // namespace dtrain::optim
