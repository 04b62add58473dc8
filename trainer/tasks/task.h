// What is learned: the seam between the training loop and images, text, or whatever comes.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "data/pipeline/batch.h"
#include "models/forward_cost.h"
#include "trainer/report/points.h"

namespace dtrain::loop {

// Float32 scalars on the device, of one micro-batch of one rank.
struct LossSums {
  at::Tensor loss_sum;      // differentiable
  at::Tensor weight;        // what the loss is a sum over: samples, or masked tokens
  at::Tensor units;         // what speeds count: images, or tokens that are no padding
  at::Tensor padding = {};  // of text: what is computed on besides; undefined where there is none
  at::Tensor hits = {};     // what TrainingMetrics knows how to count; undefined where it is nothing
};

// The gradient that the optimizer sees is that of the sum of `loss_sum` over the global batch, divided by the sum of
// `weight` over it: micro-steps and ranks of unequal weight count for what they are. That sum is known only after the
// ranks' exchange, so backward runs on a nominal weight, and the update multiplies by what is left.
class Task {
 public:
  virtual ~Task() = default;

  virtual torch::nn::Module& module() = 0;
  virtual at::Device device() const = 0;

  // On the host, before a batch is copied to the device: works out what Loss and EvaluationSums would have to wait for
  // the device for. They take what this returns.
  virtual data::Batch Prepared(data::Batch batch) const { return batch; }

  // One training micro-batch: forward pass and criterion. Random draws come from the generators of torch, which the
  // loop seeds before every call (task_seed.h).
  virtual LossSums Loss(const data::Batch& batch) = 0;

  // The expected weight of a global batch of so many samples; and whether a batch may have another weight. Where it may
  // not, nothing is left to multiply by, and the update does without that pass.
  virtual double NominalWeight(int64_t samples) const = 0;
  virtual bool weight_varies() const = 0;
  virtual report::SpeedUnit speed_unit() const = 0;

  // Of training samples, from the sums of `hits` and of `weight` over some steps.
  virtual report::Metrics TrainingMetrics(double /*hits*/, double /*weight*/) const { return {}; }

  // Why Loss cannot be recorded once and done again for other batches of the same shape (step_graph.h): because the
  // host decides something in it. Empty: it can.
  virtual std::string WhyNotRecorded() const = 0;

  // Of the largest sample that training sees.
  virtual models::ForwardCost CostOfSample() const = 0;
  // Random samples as large, on the device: for benchmarks.
  virtual data::Batch RandomBatch(int64_t samples) const = 0;

  // The samples of a prepared training batch as Loss sees them, for people: uint8 N×H×W×3 on the host; undefined where
  // they are no images.
  virtual at::Tensor Pictures(const data::Batch& /*batch*/) const { return {}; }

  // One evaluation batch: what MetricsOf understands, 1-D float64 on the device; to be added over batches and ranks.
  // The last of them counts the batch's units.
  virtual at::Tensor EvaluationSums(const data::Batch& batch) = 0;
  virtual int64_t num_evaluation_sums() const = 0;
  // From here on evaluations count, too, which class is taken for which. Without effect where there are no classes.
  virtual void CountConfusions() {}
  // `sums` on the host. The first metric says which weights are the best.
  virtual report::Metrics MetricsOf(const at::Tensor& sums) const = 0;
  // As ValPoint has them; empty where they are not counted.
  virtual std::vector<int64_t> ConfusionsOf(const at::Tensor& /*sums*/) const { return {}; }
};

}  // namespace dtrain::loop
