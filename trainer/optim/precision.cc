// Autocast keeps its casts until its outermost scope ends. LibTorch counts how deep scopes are nested.
#include "trainer/optim/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

namespace dtrain::optim {

void AllowTf32(bool allowed) {
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
}

at::ScalarType ProductType(const std::string& precision) {
  if (precision == "fp16") return at::kHalf;
  return precision == "bf16" ? at::kBFloat16 : at::kFloat;
}

AutocastScope::AutocastScope(c10::DeviceType device, const std::string& precision)
    : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
  const at::ScalarType type = ProductType(precision);
  at::autocast::set_autocast_enabled(device, type != at::kFloat);
  if (type != at::kFloat) at::autocast::set_autocast_dtype(device, type);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

}  // namespace dtrain::optim
