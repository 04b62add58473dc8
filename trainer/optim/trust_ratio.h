// The trust ratio of LARS and LAMB, which scales each parameter's step by the norm of its weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace dtrain::optim {

// Returns a vector on the tensors' device with ‖t‖₂ of each tensor.
at::Tensor NormOfEach(const std::vector<at::Tensor>& tensors);

// Returns the ratios, but 1 where a norm of the weights or of the step is 0, because then the ratio is meaningless.
at::Tensor TrustOrOne(const at::Tensor& ratios, const at::Tensor& weight_norms, const at::Tensor& step_norms);

}  // namespace dtrain::optim
