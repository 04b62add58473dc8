#include "trainer/optim/trust_ratio.h"

#include <ATen/ATen.h>

namespace dtrain::optim {

at::Tensor NormOfEach(const std::vector<at::Tensor>& tensors) { return at::stack(at::_foreach_norm(tensors)); }

void ScaleByTrust(const std::vector<at::Tensor>& tensors, const at::Tensor& ratios, const at::Tensor& weight_norms,
                  const at::Tensor& step_norms) {
  const at::Tensor both_say_something = weight_norms.gt(0).logical_and(step_norms.gt(0));
  at::_foreach_mul_(tensors, at::where(both_say_something, ratios, 1.0).unbind());
}

}  // namespace dtrain::optim
