// The backward pass draws the same numbers again.
#include "models/dropout.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <mutex>

#include "models/vector_kernels.h"

namespace dtrain::models {
namespace {

at::Tensor Drop(const at::Tensor& x, double probability, int64_t seed) {
  constexpr int64_t kGrain = 1 << 15;
  constexpr double kNumbers = 4294967296.0;
  const at::Tensor from = x.contiguous();
  const at::Tensor y = at::empty_like(from);
  const auto threshold = static_cast<uint32_t>(std::lround(probability * (kNumbers - 1)));
  const auto scale = static_cast<float>(1 / (1 - probability));
  const auto* from_data = from.const_data_ptr<float>();
  auto* y_data = y.mutable_data_ptr<float>();
  at::parallel_for(0, from.numel(), kGrain, [&](int64_t first, int64_t last) {
    DropElements(from_data + first, y_data + first, first, last - first, threshold, scale, static_cast<uint64_t>(seed));
  });
  return y;
}

struct SeededDropout : torch::autograd::Function<SeededDropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double probability,
                            int64_t seed) {
    context->saved_data["probability"] = probability;
    context->saved_data["seed"] = seed;
    return Drop(x, probability, seed);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {Drop(gradients[0], context->saved_data["probability"].toDouble(), context->saved_data["seed"].toInt()),
            at::Tensor(), at::Tensor()};
  }
};

int64_t NextSeed() {
  auto* generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::scoped_lock lock(generator->mutex_);
  return static_cast<int64_t>(generator->random64());
}

}  // namespace

at::Tensor Dropout(const at::Tensor& x, double probability, bool is_training) {
  if (!is_training || probability == 0) return x;
  const bool is_plain = x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 && probability < 1;
  return is_plain ? SeededDropout::apply(x, probability, NextSeed()) : at::dropout(x, probability, true);
}

}  // namespace dtrain::models
