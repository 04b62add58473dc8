// Depthwise convolution (each channel has a filter of its own) with gradients of its own: on the CPU, ATen's take as
// long as those of dense convolutions with many times the products.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dtrain::models {

// Returns whether DepthwiseConvolution supports the tensors and is faster than ATen: float32 on the CPU without
// autocast, x channels_last, a multiple of 8 channels, and not a 3×3 filter at stride 1 on a map wider than 16 pixels.
bool HasDepthwiseKernel(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

// at::conv2d without bias, padded by ⌊k/2⌋, with as many groups as channels. The forward pass is ATen's, bit for bit.
// Gradients are the same for any number of threads.
at::Tensor DepthwiseConvolution(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

}  // namespace dtrain::models
