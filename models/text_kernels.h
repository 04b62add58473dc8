// What lies between the products of a transformer, if a device has kernels for it (kernels/layer_norm.h, gelu.h,
// column_sums.h): biases, dropout, residuals, LayerNorm and GELU, each in one pass forward and one backward, which also
// finds the gradients of the biases; and the cross entropy of its logits (kernels/cross_entropy.h), without a softmax
// in memory. Tensors stay in the type of the products; sums over a row or a column are float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "models/kernels/cross_entropy.h"
#include "models/kernels/gelu.h"
#include "models/kernels/layer_norm.h"
#include "models/norm_kernels.h"

namespace dtrain::models {

// The kernels of a device. The trainer passes them in, so that this folder does not depend on CUDA. They work on the
// current device and stream, do not wait, and throw if they cannot be started.
struct TextKernels {
  // Takes numbers for one launch from the device's default generator.
  kernels::RandomState (*random)();
  int (*norm_parts)(int64_t rows, int64_t columns);    // ColumnSums::parts of norm_gradient
  int (*column_parts)(int64_t rows, int64_t columns);  // of gelu_gradient and join; `columns` are those of the sums
  void (*norm)(const kernels::AddNormArguments& arguments, kernels::Element element);
  void (*norm_gradient)(const kernels::AddNormGradientArguments& arguments, kernels::Element element);
  void (*gelu)(const kernels::GeluArguments& arguments, kernels::Element element);
  void (*gelu_gradient)(const kernels::GeluGradientArguments& arguments, kernels::Element element);
  void (*join)(const kernels::JoinArguments& arguments, kernels::Element element);
  void (*cross_entropy)(const kernels::CrossEntropyArguments& arguments, kernels::Element element);
  void (*cross_entropy_gradient)(const kernels::CrossEntropyGradientArguments& arguments, kernels::Element element);
};

// Returns whether the kernels support this x and S×`columns` results of products for it, under the current autocast:
// not empty, float32 or a half type, a multiple of eight columns, and rows of x that a block can hold.
bool HasTextKernels(const at::Tensor& x_SH, int64_t columns);

// Returns the type of products of x under the current autocast.
at::ScalarType GemmType(const at::Tensor& x);

// The parameters of y = LayerNorm(residual + dropout(x + x_bias)) and y = dropout(LayerNorm(residual + x + x_bias)),
// each (H).
struct ResidualNorm {
  at::Tensor x_bias, weight, bias;
  double epsilon = 0, dropout = 0;
};

// Returns y for a product x_SH without its bias. y has the type of x.
ResidualPair AddNormalised(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& residual_SH,
                           const ResidualNorm& norm);

// Returns y = dropout(LayerNorm(residual + x + x_bias)) in `type`, a type of the kernels. Residual and x_bias may be
// undefined: then they are not added.
ResidualPair NormalisedFirst(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& residual_SH,
                             const ResidualNorm& norm, at::ScalarType type);

// Returns GELU(x + bias) for a product x without its bias.
at::Tensor BiasGelu(const TextKernels& kernels, const at::Tensor& x, const at::Tensor& bias);

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
