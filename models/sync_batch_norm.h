// Batch normalisation with the statistics of all ranks' batches. torch's SyncBatchNorm exists for GPUs only.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/layers.h"

namespace dtrain::models {

struct SyncBatchNormResult {
  at::Tensor output;    // shape and type of the input
  at::Tensor mean;      // (C) float32, over all ranks
  at::Tensor variance;  // (C) float32, biased, over all ranks
  at::Tensor count;     // scalar float64: elements per channel over all ranks
};

// Normalises x with the statistics of all ranks. Differentiable in x, weight and bias. Ranks may hold batches of
// unequal size. `sum` is called in both passes and must live until the backward pass. Source: Ioffe and Szegedy 2015,
// with the sums of both passes added over ranks.
SyncBatchNormResult SyncBatchNorm(const at::Tensor& x_NCHW, const at::Tensor& weight, const at::Tensor& bias,
                                  double epsilon, const SumOverRanks& sum);

}  // namespace dtrain::models
