// Operations on lists of tensors, of which optimizers without a fused kernel of ATen are made.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

// tensors[i] −= rate · differences[i]. If `found_inf` (a float32 scalar on their device) is 1, the tensors do not
// change, even if `differences` are not finite. The host does not wait for it.
void SubtractUnless(const std::optional<at::Tensor>& found_inf, at::TensorList tensors, at::TensorList differences,
                    const Rate& rate);

// Returns a vector on the tensors' device with ‖t‖₂ of each tensor.
at::Tensor NormOfEach(const std::vector<at::Tensor>& tensors);

// Returns the trust ratios of LARS and LAMB, by which the step of each parameter is scaled: `ratios`, but 1 where a
// norm of the weights or of the step is 0, because then the ratio is meaningless.
at::Tensor TrustOrOne(const at::Tensor& ratios, const at::Tensor& weight_norms, const at::Tensor& step_norms);

}  // namespace dtrain::optim
