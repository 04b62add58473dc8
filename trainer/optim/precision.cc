// Autocast keeps its casts until its outermost scope ends. LibTorch counts how deep scopes are nested.
#include "trainer/optim/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

namespace dtrain::optim {

void AllowTf32(bool allowed) {
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
}

AutocastScope::AutocastScope(c10::DeviceType device, const std::string& precision)
    : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
  at::autocast::set_autocast_enabled(device, precision == "fp16" || precision == "bf16");
  at::autocast::set_autocast_dtype(device, precision == "fp16" ? at::kHalf : at::kBFloat16);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

CastCacheScope::CastCacheScope() { at::autocast::increment_nesting(); }

CastCacheScope::~CastCacheScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace dtrain::optim
