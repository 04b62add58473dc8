// --precision: the types in which the forward and backward pass compute. With autocast the weights, their gradients,
// BatchNorm's statistics and the loss remain float32.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <string>

namespace dtrain::optim {

// Sets for the whole process whether GPUs may round the inputs of float32 products to TF32 (10 bits of mantissa).
// Allowed with --precision=tf32 only: with fp32 convolutions do not use TF32, either, unlike PyTorch's default.
void AllowTf32(bool allowed);

// Returns the type in which this precision multiplies: float32 for fp32 and tf32.
at::ScalarType ProductType(const std::string& precision);

// While alive, enables autocast on `device` for this thread if `precision` is fp16 or bf16, and disables it otherwise.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, const std::string& precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
};

}  // namespace dtrain::optim
