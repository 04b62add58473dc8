// Operations for which LibTorch has faster kernels than those that it takes on a CPU, or none that are fast.
#pragma once

#include <ATen/core/Tensor.h>

namespace dtrain::models {

// Returns x · weightᵀ + bias over the last dimension of x, for a weight (out, in) and a bias (out), or none if it is
// undefined. Which library multiplies depends on the processor, the types and the sizes alone: LibTorch's float32
// products on a CPU are MKL's, which keep to AVX2 on AMD's processors; oneDNN's, which LibTorch has for other
// operations, use AVX-512 there and take half the time. So do they beside LibTorch's 1×1 convolutions.
at::Tensor Product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Returns whether that library is oneDNN.
bool UsesOneDnnProduct(const at::Tensor& x, const at::Tensor& weight);

// Returns x with each element set to zero with this probability, the others scaled up so that the mean stays the same;
// x itself if this is not training. On a CPU in float32, the numbers depend on one number of the default generator and
// on the places of the elements, for any number of threads, and cost no more than the products with them; ATen's take
// longer than everything else between a transformer's products together, and keep a factor for each element for the
// backward pass, where the seed is kept here. Otherwise it is at::dropout.
at::Tensor Dropout(const at::Tensor& x, double probability, bool is_training);

}  // namespace dtrain::models
