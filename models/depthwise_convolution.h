// Depthwise convolution (each channel has a filter of its own) whose gradients are computed here: ATen's on the CPU
// take as long as those of dense convolutions with many times the products.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dtrain::models {

// Whether DepthwiseConvolution takes them and is the quicker one: float32 on the CPU, channels_last, a multiple of 8
// channels; not 3×3 filters at stride 1 on large maps, which ATen is good at.
bool HasDepthwiseKernel(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

// As at::conv2d without bias, padded by ⌊k/2⌋, with as many groups as channels; the forward pass is ATen's, to the bit.
// Gradients are the same for any number of threads.
at::Tensor DepthwiseConvolution(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

}  // namespace dtrain::models
