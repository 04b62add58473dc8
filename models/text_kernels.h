// What lies between the products of a transformer or a ConvNeXt, if a device has kernels for it (kernels/layer_norm.h,
// linear_unit.h, rotation.h, column_sums.h): biases, dropout, residuals, LayerNorm, GELU and rotary positions, each in
// one pass forward and one backward, which also finds the gradients of the biases; and the cross entropy of its logits
// (kernels/cross_entropy.h), without a softmax in memory. Tensors stay in the type of the products; sums over a row or
// a column are float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "models/device_kernels.h"
#include "models/norm_kernels.h"

namespace dtrain::models {

using kernels::LinearUnit;

// Returns whether the kernels support this x and S×`columns` results of products for it, under the current autocast:
// not empty, float32 or a half type, a multiple of eight columns, and rows of x that a block can hold.
bool HasTextKernels(const at::Tensor& x_SH, int64_t columns);

// Returns the type of products of x under the current autocast.
at::ScalarType GemmType(const at::Tensor& x);

// The parameters of a LayerNorm and of the sum before it, each (H). Undefined: x_bias and bias are 0, scale is 1.
struct ResidualNorm {
  at::Tensor x_bias, weight, bias, scale = {};
  double epsilon = 0, dropout = 0;
  int64_t rows_of_sample = 0;  // dropout takes whole samples of so many rows; 0: single elements
};

// Returns y = LayerNorm(residual + dropout(x + x_bias)) for a product x_SH without its bias. y has the type of x.
ResidualPair AddNormalised(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& residual_SH,
                           const ResidualNorm& norm);

// Returns the sum residual + dropout(scale · (x + x_bias)) as the shortcut and its LayerNorm as the main one; the sum
// as both if norm.weight is undefined. They have the type of x.
ResidualPair SumNormalised(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& residual_SH,
                           const ResidualNorm& norm);

// Returns y = dropout(LayerNorm(residual + x + x_bias)) in `type`, a type of the kernels. The residual may be
// undefined: then it is not added.
ResidualPair NormalisedFirst(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& residual_SH,
                             const ResidualNorm& norm, at::ScalarType type);

// Returns the unit's y for a product x without its bias, which may be undefined (0).
at::Tensor UnitOf(const TextKernels& kernels, LinearUnit unit, const at::Tensor& x, const at::Tensor& bias);

// Returns the queries, keys and values of a product (S, 3H) without bias, the first two turned by the angles of their
// tokens (kernels/rotation.h; float32, S×d, of which the second halves repeat the first). The results are views of the
// product, which is overwritten. d / 2 must be a multiple of eight.
std::array<at::Tensor, 3> RotatedQkv(const TextKernels& kernels, const at::Tensor& product_S3H,
                                     const at::Tensor& cosine_Sd, const at::Tensor& sine_Sd);

// Returns x · weightᵀ + bias for three weights (H, H), which are one below the other, computed as one product. The
// results are S×H views of one S×3H matrix. x has the type of products.
std::array<at::Tensor, 3> FusedQkv(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& weights_3HH,
                                   const std::array<at::Tensor, 3>& biases_H);

// Returns whether the kernels support these logits: a contiguous matrix of float32 or a half type, not empty, with a
// multiple of eight columns.
bool HasCrossEntropyKernels(const at::Tensor& logits_RV);

// Returns Σ −log softmax(logits)[answer] over rows whose answer (int64) is not `ignored`: a float32 scalar.
// Differentiable. A row of −∞ alone, or with a NaN or ∞, has NaN. So has one whose answer is no column: nothing waits
// for the device to check them.
at::Tensor CrossEntropySum(const TextKernels& kernels, const at::Tensor& logits_RV, const at::Tensor& answers_R,
                           int64_t ignored);

}  // namespace dtrain::models
