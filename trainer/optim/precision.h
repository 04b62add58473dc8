// Autocast: which operators run in a lower precision, while weights and gradients stay float32.
#pragma once

#include <ATen/autocast_mode.h>

#include <string>

namespace dtrain::optim {

// Autocast on `device` while alive: bf16 or off (fp32). Casts of weights are cached until it ends.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, const std::string& precision)
      : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
    at::autocast::set_autocast_enabled(device, precision == "bf16");
    at::autocast::set_autocast_dtype(device, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
};

}  // namespace dtrain::optim
