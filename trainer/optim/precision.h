// --precision: the types in which the forward and backward pass compute. With autocast the weights, their gradients,
// BatchNorm's statistics and the loss remain float32.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

namespace dtrain::optim {

// A value of --precision, by which it is known everywhere.
struct Precision {
  std::string_view name;
  at::ScalarType products = at::kFloat;  // the type in which matrices are multiplied; other than kFloat by autocast
  bool tf32 = false;                     // see AllowTf32
  bool scales_loss = false;              // small gradients would be 0 without a loss scale
};

// Throws std::out_of_range for a name that --precision does not have. amp is none: config::ResolveForDevice chooses.
const Precision& PrecisionNamed(const std::string& name);

// Sets for the whole process whether GPUs may round the inputs of float32 products to TF32 (10 bits of mantissa).
// With fp32 convolutions do not use TF32, either, unlike PyTorch's default.
void AllowTf32(bool allowed);

// While alive, enables autocast on `device` for this thread if `precision` multiplies in half precision, and disables
// it otherwise.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, const Precision& precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
};

}  // namespace dtrain::optim
