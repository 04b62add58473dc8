// Tensors as kernels take them: of types that they know, contiguous and aligned.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/kernels/channels_last.h"

namespace dtrain::models {

inline constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

// Whether it is float32 or a half type.
inline bool HasElement(at::ScalarType type) { return type == at::kFloat || type == at::kHalf || type == at::kBFloat16; }

// `x` is of such a type.
inline kernels::Element ElementOf(const at::Tensor& x) {
  if (x.scalar_type() == at::kHalf) return kernels::Element::kHalf;
  return x.scalar_type() == at::kBFloat16 ? kernels::Element::kBFloat16 : kernels::Element::kFloat;
}

// Whether kernels can load 16 bytes at once from where x begins.
inline bool IsAligned(const at::Tensor& x) {
  constexpr uintptr_t kAlignment = 16;
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kAlignment == 0;
}

// Returns x, or a copy that is contiguous and aligned.
inline at::Tensor ForKernels(const at::Tensor& x, at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  const at::Tensor whole = x.contiguous(format);
  return IsAligned(whole) ? whole : whole.clone(format);
}

}  // namespace dtrain::models
