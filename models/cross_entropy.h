// The cross entropy of logits if a device has kernels for it (kernels/cross_entropy.h): one pass over the logits
// forward and one backward, in their type, and neither keeps a softmax in float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/text_kernels.h"

namespace dtrain::models {

// Returns whether the kernels support these logits: a contiguous matrix of float32 or a half type, not empty, with a
// multiple of eight columns.
bool HasCrossEntropyKernels(const at::Tensor& logits_RV);

// Returns Σ −log softmax(logits)[answer] over rows whose answer (int64) is not `ignored`: a float32 scalar.
// Differentiable. A row of −∞ alone, or with a NaN or ∞, has NaN. So has one whose answer is no column: nothing waits
// for the device to check them.
at::Tensor CrossEntropySum(const TextKernels& kernels, const at::Tensor& logits_RV, const at::Tensor& answers_R,
                           int64_t ignored);

}  // namespace dtrain::models
