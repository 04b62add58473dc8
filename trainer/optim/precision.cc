// Autocast keeps its casts until its outermost scope ends. LibTorch counts how deep scopes are nested.
#include "trainer/optim/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace dtrain::optim {

const Precision& PrecisionNamed(const std::string& name) {
  static const std::array<Precision, 4> all = {Precision{.name = "fp32"},
                                               {.name = "tf32", .tf32 = true},
                                               {.name = "fp16", .products = at::kHalf, .scales_loss = true},
                                               {.name = "bf16", .products = at::kBFloat16}};
  const auto found = std::ranges::find(all, name, &Precision::name);
  if (found == all.end()) throw std::out_of_range("no precision is called '" + name + "'");
  return *found;
}

void AllowTf32(bool allowed) {
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
}

AutocastScope::AutocastScope(c10::DeviceType device, const Precision& precision)
    : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
  const bool casts = precision.products != at::kFloat;
  at::autocast::set_autocast_enabled(device, casts);
  if (casts) at::autocast::set_autocast_dtype(device, precision.products);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

}  // namespace dtrain::optim
