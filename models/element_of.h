// The type of a tensor's elements, as kernels name it.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/kernels/channels_last.h"

namespace dtrain::models {

// `x` is of float32 or a half type.
inline kernels::Element ElementOf(const at::Tensor& x) {
  if (x.scalar_type() == at::kHalf) return kernels::Element::kHalf;
  return x.scalar_type() == at::kBFloat16 ? kernels::Element::kBFloat16 : kernels::Element::kFloat;
}

}  // namespace dtrain::models
