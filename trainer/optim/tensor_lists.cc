#include "trainer/optim/tensor_lists.h"

#include <ATen/ATen.h>

namespace dtrain::optim {

// SGD without momentum is this subtraction, and its fused kernel reads found_inf on the device.
void SubtractUnless(const std::optional<at::Tensor>& found_inf, at::TensorList tensors, at::TensorList differences,
                    const Rate& rate) {
  std::visit(
      [&](const auto& number) {
        at::_fused_sgd_(tensors, differences, /*momentum_buffer_list=*/{}, /*weight_decay=*/0, /*momentum=*/0, number,
                        /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false,
                        /*grad_scale=*/std::nullopt, found_inf);
      },
      rate);
}

at::Tensor NormOfEach(const std::vector<at::Tensor>& tensors) { return at::stack(at::_foreach_norm(tensors)); }

at::Tensor TrustOrOne(const at::Tensor& ratios, const at::Tensor& weight_norms, const at::Tensor& step_norms) {
  return at::where(weight_norms.gt(0).logical_and(step_norms.gt(0)), ratios, 1.0);
}

}  // namespace dtrain::optim
