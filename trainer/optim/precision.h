// --precision: in which types forward and backward work, while weights, their gradients, BatchNorm's statistics and the
// loss stay float32.
#pragma once

#include <c10/core/DeviceType.h>

#include <string>

namespace dtrain::optim {

// For the whole process: whether GPUs may round the inputs of float32 products to TF32 (10 bits of mantissa). Only with
// tf32; fp32 means fp32, for convolutions too, unlike PyTorch's default.
void AllowTf32(bool allowed);

// Autocast on `device` while alive, for --precision=fp16 and bf16; nothing otherwise.
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

// While alive, autocast's casts of the weights are kept: around the micro-steps of one step, between which the weights
// do not change.
class CastCacheScope {
 public:
  CastCacheScope();
  ~CastCacheScope();
  CastCacheScope(const CastCacheScope&) = delete;
  CastCacheScope& operator=(const CastCacheScope&) = delete;
};

}  // namespace dtrain::optim
