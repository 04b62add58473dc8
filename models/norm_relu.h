// BatchNorm, addition and ReLU as one operation, where a device has kernels for it (kernels/batch_norm_relu.h): in a
// ResNet most of the time outside of convolutions goes into carrying these tensors back and forth.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

#include "models/kernels/batch_norm_relu.h"

namespace dtrain::models {

// What a device does. The trainer hands it in: this folder does not depend on CUDA. The functions work on the current
// device and stream, do not wait, and throw where they cannot be started.
struct NormReluDevice {
  void (*forward)(const kernels::ForwardArguments& arguments, kernels::Element element);
  int64_t (*num_partial_sums)(int64_t rows, int64_t channels);
  void (*sum)(const kernels::BackwardArguments& arguments, kernels::Element element, float* partial);
  void (*backward)(const kernels::BackwardArguments& arguments, kernels::Element element);
  // Mean and 1 / √(variance + ε) of each channel of a channels-last tensor, float32; moves the running statistics
  // towards them as training does.
  std::tuple<at::Tensor, at::Tensor> (*statistics)(const at::Tensor& x_NCHW, const at::Tensor& running_mean,
                                                   const at::Tensor& running_var, double momentum, double epsilon);
};

// Whether NormRelu takes it: four dimensions, float32 or a half type, a multiple of eight channels.
bool CanNormRelu(const at::Tensor& x_NCHW);

// ReLU(BatchNorm(x) + z) with the statistics of this batch; z undefined: nothing is added. Differentiable in x, z,
// weight and bias (float32). The sums of the backward pass are added up in the same order every time.
at::Tensor NormRelu(const NormReluDevice& device, const at::Tensor& x_NCHW, const at::Tensor& z_NCHW,
                    const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                    const at::Tensor& inverse_std);

}  // namespace dtrain::models
