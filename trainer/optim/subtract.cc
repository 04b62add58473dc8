// SGD without momentum is this subtraction, and its fused kernel reads found_inf on the device.
#include "trainer/optim/subtract.h"

#include <ATen/ATen.h>

namespace dtrain::optim {

void SubtractUnless(const std::optional<at::Tensor>& found_inf, const std::vector<at::Tensor>& tensors,
                    const std::vector<at::Tensor>& differences, double rate) {
  at::_fused_sgd_(tensors, differences, /*momentum_buffer_list=*/{}, /*weight_decay=*/0, /*momentum=*/0, rate,
                  /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false,
                  /*grad_scale=*/std::nullopt, found_inf);
}

}  // namespace dtrain::optim
