// Each layer is a weight and one ATen call: what LibTorch's own modules add (options, printing, drawing) is not used.
#include "models/layers.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <cmath>

#include "models/sync_batch_norm.h"

namespace dtrain::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

}  // namespace

Conv2dImpl::Conv2dImpl(const Conv2dOptions& conv_options) : options(conv_options) {
  weight = register_parameter(
      "weight", at::empty({options.out_channels, options.in_channels, options.kernel_size, options.kernel_size}));
}

at::Tensor Conv2dImpl::forward(const at::Tensor& x_NCHW) {
  return at::conv2d(x_NCHW, weight, {}, options.stride, options.kernel_size / 2);
}

BatchNorm2dImpl::BatchNorm2dImpl(int64_t channels) {
  weight = register_parameter("weight", at::ones(channels));
  bias = register_parameter("bias", at::zeros(channels));
  running_mean = register_buffer("running_mean", at::zeros(channels));
  running_var = register_buffer("running_var", at::ones(channels));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

at::Tensor BatchNorm2dImpl::forward(const at::Tensor& x_NCHW) {
  if (is_training()) num_batches_tracked.add_(1);
  if (!is_training() || !sum_over_ranks_) {
    return at::batch_norm(x_NCHW, weight, bias, running_mean, running_var, is_training(), kMomentum, kEpsilon,
                          /*cudnn_enabled=*/true);
  }
  const auto result = SyncBatchNorm(x_NCHW, weight, bias, kEpsilon, sum_over_ranks_);
  at::NoGradGuard no_grad;
  const at::Tensor unbiased = result.variance * (result.count / (result.count - 1)).to(at::kFloat);
  running_mean.lerp_(result.mean, kMomentum);
  running_var.lerp_(unbiased, kMomentum);
  return result.output;
}

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, InitialWeights initial) {
  weight = register_parameter("weight", at::empty({out_features, in_features}));
  bias = register_parameter("bias", at::zeros(out_features));
  if (initial == InitialWeights::kNotYet) return;
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  torch::nn::init::uniform_(weight, -bound, bound);
  torch::nn::init::uniform_(bias, -bound, bound);
}

at::Tensor LinearImpl::forward(const at::Tensor& x) { return at::linear(x, weight, bias); }

LayerNormImpl::LayerNormImpl(int64_t features, double epsilon) : epsilon_(epsilon) {
  weight = register_parameter("weight", at::ones(features));
  bias = register_parameter("bias", at::zeros(features));
}

at::Tensor LayerNormImpl::forward(const at::Tensor& x) {
  return at::layer_norm(x, weight.sizes(), weight, bias, epsilon_);
}

EmbeddingImpl::EmbeddingImpl(int64_t rows, int64_t features, int64_t padding_row) : padding_row_(padding_row) {
  weight = register_parameter("weight", at::empty({rows, features}));
}

at::Tensor EmbeddingImpl::forward(const at::Tensor& ids) { return at::embedding(weight, ids, padding_row_); }

void SynchronizeBatchNorm(torch::nn::Module& model, const SumOverRanks& sum) {
  model.apply([&sum](torch::nn::Module& module) {
    if (auto* norm = dynamic_cast<BatchNorm2dImpl*>(&module)) norm->Synchronize(sum);
  });
}

}  // namespace dtrain::models
