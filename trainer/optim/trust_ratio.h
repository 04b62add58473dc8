// What LARS and LAMB have in common: a step of each layer is measured by the length of its weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace dtrain::optim {

// ‖t‖₂ of each, in one vector on their device.
at::Tensor NormOfEach(const std::vector<at::Tensor>& tensors);

// tensors[i] *= ratios[i]; but by 1 where the norm of the weights or that of the step is 0, which says nothing.
void ScaleByTrust(const std::vector<at::Tensor>& tensors, const at::Tensor& ratios, const at::Tensor& weight_norms,
                  const at::Tensor& step_norms);

}  // namespace dtrain::optim
