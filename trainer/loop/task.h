// What is learned: the seam between the training loop and images, text, or whatever comes.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "data/batch.h"
#include "trainer/report/points.h"

namespace dtrain::loop {

// Scalars on the device. The loop divides by the weight of the whole global batch, so that micro-steps and ranks of
// unequal weight count for what they are.
struct LossSums {
  at::Tensor loss_sum;  // differentiable
  double weight;        // samples
};

class Task {
 public:
  virtual ~Task() = default;

  virtual torch::nn::Module& module() = 0;
  virtual at::Device device() const = 0;

  // One training micro-batch: forward pass and criterion.
  virtual LossSums Loss(const data::Batch& batch) = 0;

  // One evaluation batch: what MetricsOf understands, 1-D float64 on the device; to be added over batches and ranks.
  virtual at::Tensor EvaluationSums(const data::Batch& batch) = 0;
  virtual int64_t num_evaluation_sums() const = 0;
  // `sums` on the host. Fills everything but step and epoch.
  virtual report::ValPoint MetricsOf(const at::Tensor& sums) const = 0;
};

}  // namespace dtrain::loop
