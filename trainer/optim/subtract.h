// The one write of the optimizers that ATen has no fused kernel for.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace dtrain::optim {

// tensors[i] −= rate · differences[i]; where `found_inf` (a float scalar on their device) is 1, they stay as they are,
// whatever the differences hold. The host does not wait for it.
void SubtractUnless(const std::optional<at::Tensor>& found_inf, const std::vector<at::Tensor>& tensors,
                    const std::vector<at::Tensor>& differences, double rate);

}  // namespace dtrain::optim
