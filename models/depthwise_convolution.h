// Depthwise convolution (each channel has a filter of its own) with gradients of its own: on the CPU, ATen's take as
// long as those of dense convolutions with many times the products, and on a GPU, cuDNN's take several times as long as
// moving the tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/kernels/depthwise.h"

namespace dtrain::models {

// Returns whether DepthwiseConvolution supports the tensors and is faster than ATen: float32 on the CPU without
// autocast, x channels_last, a multiple of 8 channels, and not a 3×3 filter at stride 1 on a map wider than 16 pixels.
bool HasDepthwiseKernel(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

// at::conv2d without bias, padded by ⌊k/2⌋, with as many groups as channels. The forward pass is ATen's, bit for bit.
// Gradients are the same for any number of threads.
at::Tensor DepthwiseConvolution(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

// The kernels of a device. The trainer passes them in, so that this folder does not depend on CUDA. They work on the
// current device and stream, do not wait, and throw if they cannot be started.
struct DepthwiseKernels {
  int (*num_parts)(const kernels::DepthwiseShape& shape);  // DepthwiseTapsArguments::parts
  void (*convolve)(const kernels::DepthwiseArguments& arguments, kernels::Element element);
  void (*taps)(const kernels::DepthwiseTapsArguments& arguments, kernels::Element element);
};

// Returns whether a device's kernels support the tensors: x of a half type, channels last, a multiple of eight
// channels; filters of 3×3 or 5×5 at stride 1 or 2, or of 7×7 at stride 1, of the same type or cast by autocast.
bool HasDeviceDepthwiseKernel(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

// The same convolution by a device's kernels, which live until the backward pass, with sums in float32. The result has
// x's type, the weight's gradient the weight's. Sums are added in the same order every time.
at::Tensor DepthwiseConvolution(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride,
                                const DepthwiseKernels& kernels);

}  // namespace dtrain::models
