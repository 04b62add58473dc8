#include "trainer/optim/weight_average.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dtrain::optim {

double UpdateDecay(const WeightAverageOptions& options, int64_t steps_done) {
  const auto n = static_cast<double>(steps_done / options.every);
  if (options.start == "tensorflow") return std::min(options.decay, (1 + n) / (10 + n));
  if (options.start == "nvidia") return std::min(options.decay, n / (9 + n));
  if (options.start == "timm") return std::min(options.decay, 1 - std::pow(n, -2.0 / 3.0));
  if (options.start == "torchvision") return steps_done - options.every <= options.warmup ? 0 : options.decay;
  if (options.start == "none") return n <= 1 ? 0 : options.decay;
  throw std::invalid_argument("an average cannot start as '" + options.start + "'");
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
