// A task small enough to be computed by hand: a linear fit whose samples have unequal weights.
#pragma once

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "trainer/tasks/task.h"

namespace dtrain::loop {

// Features (…, kFeatures), targets and weights, all float64, of the samples at these places in the data. The tensor of
// places may have any shape.
struct FakeSamples {
  static constexpr int64_t kFeatures = 4;

  explicit FakeSamples(const at::Tensor& index)
      : features(at::stack({at::ones_like(index), index.remainder(3), index.remainder(5), index.remainder(7)}, -1)
                     .to(at::kDouble)
                     .div(4)),
        target(index.remainder(2).to(at::kDouble)),
        weight(index.remainder(4).to(at::kDouble)) {}  // every fourth sample has weight 0

  at::Tensor features, target, weight;
};

class FakeTask : public tasks::Task {
 public:
  struct Model : torch::nn::Module {
    Model() : weight(register_parameter("weight", at::zeros({FakeSamples::kFeatures}))) {}
    at::Tensor weight;
  };

  torch::nn::Module& module() override { return model_; }
  at::Device device() const override { return at::kCPU; }

  bool gathers_samples() const override { return true; }
  tasks::LossSums Loss(const data::Batch& batch) override {
    FakeSamples samples(batch[tasks::kPlaces]);
    samples.target.masked_fill_(batch[tasks::kPlaces].eq(poisoned), 1e6);
    draws.push_back(at::rand({1}).item<float>());
    const at::Tensor error = samples.features.to(at::kFloat).mv(model_.weight) - samples.target.to(at::kFloat);
    const at::Tensor weight = samples.weight.to(at::kFloat);
    return {(weight * error.square()).sum(), weight.sum(), at::full({}, batch.size(), at::kFloat)};
  }
  double NominalWeight(int64_t samples) const override { return 3.5 * static_cast<double>(samples); }
  bool weight_varies() const override { return true; }
  report::SpeedUnit speed_unit() const override { return report::SpeedUnit::kTokens; }
  std::string WhyNotRecorded() const override { return ""; }

  models::ForwardCost CostOfSample() const override { return {}; }
  data::Batch RandomBatch(int64_t samples) const override {
    data::Batch batch;
    batch.tensors["index"] = at::arange(samples);
    return batch;
  }

  void AddEvaluationSums(const data::Batch& batch, at::Tensor sums) override { sums += batch.size(); }
  int64_t num_evaluation_sums() const override { return 1; }
  report::Metrics MetricsOf(const at::Tensor& sums) const override { return {{"samples", sums[0].item<double>()}}; }

  int64_t poisoned = -1;     // the place of a sample with a wrong target
  std::vector<float> draws;  // one for each micro-step, in place of dropout's draws

 private:
  Model model_;
};

}  // namespace dtrain::loop
