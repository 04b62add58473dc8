#include "trainer/optim/weight_average.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace dtrain::optim {

double AverageDecay(double decay, int64_t update) {
  const auto n = static_cast<double>(update);
  return std::min(decay, (1 + n) / (10 + n));
}

double UpdateDecay(const WeightAverageOptions& options, int64_t steps_done) {
  if (options.ramp) return AverageDecay(options.decay, steps_done / options.every);
  return steps_done - options.every <= options.warmup ? 0 : options.decay;
}

WeightAverage::WeightAverage(const std::vector<NamedTensor>& state, const WeightAverageOptions& options)
    : options_(options) {
  for (const auto& [name, tensor] : state) {
    weights_.push_back(tensor);
    averages_.emplace_back(name, tensor.detach().clone());
  }
}

void WeightAverage::AfterStep(int64_t steps_done) {
  if (steps_done % options_.every == 0) Update(UpdateDecay(options_, steps_done));
}

void WeightAverage::Update(double decay) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> averages, weights;
  for (size_t i = 0; i < weights_.size(); ++i) {
    at::Tensor& average = averages_[i].second;
    if (average.is_floating_point()) {
      averages.push_back(average);
      weights.push_back(weights_[i].detach());
    } else {
      average.copy_(weights_[i]);
    }
  }
  if (!averages.empty()) at::_foreach_lerp_(averages, weights, 1 - decay);
}

void WeightAverage::Swap() {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor weight = weights_[i].detach();  // keeps the memory when the parameter gets that of the average
    weights_[i].set_data(averages_[i].second);
    averages_[i].second = weight;
  }
}

}  // namespace dtrain::optim
