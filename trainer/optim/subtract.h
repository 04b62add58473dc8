// The subtraction by which optimizers without a fused kernel of ATen write their parameters and state.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

// tensors[i] −= rate · differences[i]. If `found_inf` (a float32 scalar on their device) is 1, the tensors do not
// change, even if `differences` are not finite. The host does not wait for it.
void SubtractUnless(const std::optional<at::Tensor>& found_inf, at::TensorList tensors, at::TensorList differences,
                    const Rate& rate);

}  // namespace dtrain::optim
