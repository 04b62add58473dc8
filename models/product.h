// The product of dense layers. LibTorch's float32 products on a CPU are MKL's, which keep to AVX2 on AMD's processors;
// oneDNN's, which LibTorch has for other operations, use AVX-512 there and take half the time. So do they beside
// LibTorch's 1×1 convolutions.
#pragma once

#include <ATen/core/Tensor.h>

namespace dtrain::models {

// Returns x · weightᵀ + bias over the last dimension of x, for a weight (out, in) and a bias (out), or none if it is
// undefined. Which library multiplies depends on the processor, the types and the sizes alone.
at::Tensor Product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Returns whether that library is oneDNN.
bool UsesOneDnnProduct(const at::Tensor& x, const at::Tensor& weight);

}  // namespace dtrain::models
