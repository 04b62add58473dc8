// Batch normalisation with the statistics of all ranks' batches. torch's SyncBatchNorm exists for GPUs only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace dtrain::models {

// Sums a tensor over all ranks, in place. It is all that a model knows of ranks.
using SumOverRanks = std::function<void(at::Tensor&)>;

struct RankStatistics {
  at::Tensor mean;      // (C) float32, over all ranks
  at::Tensor variance;  // (C) float32, biased, over all ranks
  at::Tensor count;     // scalar float64: elements per channel over all ranks
};

// Returns the statistics of all ranks' rows, from those of this rank's `rows`. Ranks may hold batches of unequal size.
RankStatistics OverRanks(const at::Tensor& mean_C, const at::Tensor& variance_C, int64_t rows, const SumOverRanks& sum);

// The averages that training keeps for evaluation, and the number of batches.
struct RunningStatistics {
  at::Tensor mean, variance, batches;
  double momentum = 0;
};

// Moves mean and variance (as the unbiased one) towards those of a batch.
void UpdateRunning(const RankStatistics& batch, const RunningStatistics& running);

struct SyncBatchNormResult {
  at::Tensor output;  // shape and type of the input
  RankStatistics statistics;
};

// Normalises x with the statistics of all ranks. Differentiable in x, weight and bias. `sum` is called in both passes
// and must live until the backward pass. Source: Ioffe and Szegedy 2015, with the sums of both passes added over ranks.
SyncBatchNormResult SyncBatchNorm(const at::Tensor& x_NCHW, const at::Tensor& weight, const at::Tensor& bias,
                                  double epsilon, const SumOverRanks& sum);

}  // namespace dtrain::models
