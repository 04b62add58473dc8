// Each layer is a weight and one ATen call. The extras of LibTorch's modules (options, printing, drawing) are not
// needed.
#include "models/layers.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <cmath>

#include "models/depthwise_convolution.h"
#include "models/forward_cost.h"
#include "models/norm_relu.h"
#include "models/sync_batch_norm.h"

namespace dtrain::models {
namespace {

at::Tensor ShapeOf(at::IntArrayRef sizes) { return at::empty(sizes, at::TensorOptions(at::kMeta)); }

}  // namespace

Conv2dImpl::Conv2dImpl(const Conv2dOptions& conv_options) : options(conv_options) {
  weight = register_parameter("weight", at::empty({options.out_channels, options.in_channels / options.groups,
                                                   options.kernel_size, options.kernel_size}));
  if (options.bias) bias = register_parameter("bias", at::empty(options.out_channels));
}

at::Tensor Conv2dImpl::forward(const at::Tensor& x_NCHW) {
  const int64_t padding = options.kernel_size / 2;
  if (x_NCHW.is_meta()) {
    const auto out = [&](int64_t size) { return (size + 2 * padding - options.kernel_size) / options.stride + 1; };
    const at::Tensor y_NCHW = ShapeOf({x_NCHW.size(0), options.out_channels, out(x_NCHW.size(2)), out(x_NCHW.size(3))});
    CountForward({.multiply_adds = y_NCHW.numel() * weight[0].numel(), .activation_elements = y_NCHW.numel()});
    return y_NCHW;
  }
  const bool is_depthwise = options.groups == options.in_channels && options.groups == options.out_channels;
  if (is_depthwise && !options.bias && HasDepthwiseKernel(x_NCHW, weight, options.stride)) {
    return DepthwiseConvolution(x_NCHW, weight, options.stride);
  }
  const int64_t zero_channels = x_NCHW.size(1) - options.in_channels;
  const at::Tensor padded = zero_channels > 0 ? at::constant_pad_nd(weight, {0, 0, 0, 0, 0, zero_channels}) : weight;
  return at::conv2d(x_NCHW, padded, bias, options.stride, padding, /*dilation=*/1, options.groups);
}

BatchNorm2dImpl::BatchNorm2dImpl(int64_t channels, const BatchNormOptions& options) : options_(options) {
  weight = register_parameter("weight", at::ones(channels));
  bias = register_parameter("bias", at::zeros(channels));
  running_mean = register_buffer("running_mean", at::zeros(channels));
  running_var = register_buffer("running_var", at::ones(channels));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

at::Tensor BatchNorm2dImpl::forward(const at::Tensor& x_NCHW) {
  if (x_NCHW.is_meta()) {
    CountForward({.activation_elements = x_NCHW.numel()});
    return x_NCHW;
  }
  if (is_training()) num_batches_tracked.add_(1);
  if (!is_training() || !sum_over_ranks_) {
    return at::batch_norm(x_NCHW, weight, bias, running_mean, running_var, is_training(), options_.momentum,
                          options_.epsilon,
                          /*cudnn_enabled=*/true);
  }
  const auto result = SyncBatchNorm(x_NCHW, weight, bias, options_.epsilon, sum_over_ranks_);
  at::NoGradGuard no_grad;
  const at::Tensor unbiased = result.variance * (result.count / (result.count - 1)).to(at::kFloat);
  running_mean.lerp_(result.mean, options_.momentum);
  running_var.lerp_(unbiased, options_.momentum);
  return result.output;
}

at::Tensor Silu(const at::Tensor& x) {
  if (x.is_meta()) CountForward({.activation_elements = x.numel()});
  return at::silu(x);
}

at::Tensor BatchNorm2dImpl::ForwardRelu(const at::Tensor& x_NCHW, const std::function<at::Tensor()>& shortcut) {
  if (fused_ == nullptr || x_NCHW.is_meta() || !is_training() || sum_over_ranks_ || !CanNormRelu(x_NCHW)) {
    at::Tensor y = forward(x_NCHW);
    if (shortcut) y += shortcut();
    return y.relu_();
  }
  num_batches_tracked.add_(1);
  const at::Tensor x = x_NCHW.contiguous(at::MemoryFormat::ChannelsLast);
  const auto [mean, inverse_std] = [&] {
    const at::NoGradGuard no_grad;
    return fused_->statistics(x.detach(), running_mean, running_var, options_.momentum, options_.epsilon);
  }();
  return NormRelu(*fused_, x, shortcut ? shortcut() : at::Tensor(), weight, bias, mean, inverse_std);
}

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, InitialWeights initial) {
  weight = register_parameter("weight", at::empty({out_features, in_features}));
  bias = register_parameter("bias", at::zeros(out_features));
  if (initial == InitialWeights::kNotYet) return;
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  torch::nn::init::uniform_(weight, -bound, bound);
  torch::nn::init::uniform_(bias, -bound, bound);
}

at::Tensor LinearImpl::forward(const at::Tensor& x) {
  if (!x.is_meta()) return at::linear(x, weight, bias);
  CountForward({.multiply_adds = x.numel() / x.size(-1) * weight.numel()});
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return ShapeOf(sizes);
}

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

void ChangeBatchNorm(torch::nn::Module& model, const std::optional<double>& epsilon,
                     const std::optional<double>& momentum) {
  model.apply([&](torch::nn::Module& module) {
    auto* norm = dynamic_cast<BatchNorm2dImpl*>(&module);
    if (norm == nullptr) return;
    if (epsilon) norm->options().epsilon = *epsilon;
    if (momentum) norm->options().momentum = *momentum;
  });
}

void SynchronizeBatchNorm(torch::nn::Module& model, const SumOverRanks& sum) {
  model.apply([&sum](torch::nn::Module& module) {
    if (auto* norm = dynamic_cast<BatchNorm2dImpl*>(&module)) norm->Synchronize(sum);
  });
}

void FuseNorms(torch::nn::Module& model, const NormReluDevice& device) {
  model.apply([&device](torch::nn::Module& module) {
    if (auto* norm = dynamic_cast<BatchNorm2dImpl*>(&module)) norm->Fuse(device);
  });
}

}  // namespace dtrain::models
