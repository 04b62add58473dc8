// What kernels need to know of a tensor: the type of its elements, as they name it, and its alignment.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/kernels/channels_last.h"

namespace dtrain::models {

// `x` is of float32 or a half type.
inline kernels::Element ElementOf(const at::Tensor& x) {
  if (x.scalar_type() == at::kHalf) return kernels::Element::kHalf;
  return x.scalar_type() == at::kBFloat16 ? kernels::Element::kBFloat16 : kernels::Element::kFloat;
}

// Whether kernels can load 16 bytes at once from where x begins.
inline bool IsAligned(const at::Tensor& x) {
  constexpr uintptr_t kAlignment = 16;
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kAlignment == 0;
}

}  // namespace dtrain::models
