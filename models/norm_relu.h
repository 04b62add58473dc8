// BatchNorm, addition and ReLU as one operation, if a device has kernels for it (kernels/batch_norm_relu.h). In a
// ResNet, most of the time outside convolutions is spent on moving these tensors through memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

#include "models/kernels/batch_norm_relu.h"

namespace dtrain::models {

// The functions of a device. The trainer passes them in, so that this folder does not depend on CUDA. They work on the
// current device and stream, do not wait, and throw if they cannot be started.
struct NormReluDevice {
  void (*forward)(const kernels::ForwardArguments& arguments, kernels::Element element);
  int64_t (*num_partial_sums)(int64_t rows, int64_t channels);
  void (*sum)(const kernels::BackwardArguments& arguments, kernels::Element element, float* partial);
  void (*backward)(const kernels::BackwardArguments& arguments, kernels::Element element);
  // Returns the mean and 1 / √(variance + ε) of each channel of a channels-last tensor, float32, and updates the
  // running statistics as training does.
  std::tuple<at::Tensor, at::Tensor> (*statistics)(const at::Tensor& x_NCHW, const at::Tensor& running_mean,
                                                   const at::Tensor& running_var, double momentum, double epsilon);
};

// Returns whether NormRelu supports the tensor: four dimensions, not empty, float32 or a half type, a multiple of eight
// channels.
bool CanNormRelu(const at::Tensor& x_NCHW);

// Returns ReLU(BatchNorm(x) + z), or without z if that is undefined, where `mean` and `inverse_std` (float32) are the
// statistics of this batch. Differentiable in x, z, weight and bias (float32). The backward pass adds its sums in the
// same order every time. `device` must live until the backward pass.
at::Tensor NormRelu(const NormReluDevice& device, const at::Tensor& x_NCHW, const at::Tensor& z_NCHW,
                    const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                    const at::Tensor& inverse_std);

}  // namespace dtrain::models
