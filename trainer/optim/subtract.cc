// SGD without momentum is this subtraction, and its fused kernel reads found_inf on the device.
#include "trainer/optim/subtract.h"

#include <ATen/ATen.h>

namespace dtrain::optim {

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

}  // namespace dtrain::optim
