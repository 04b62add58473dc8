// Each layer is a weight and one ATen call. The extras of LibTorch's modules (options, printing, drawing) are not
// needed.
#include "models/layers.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/cpu_operations.h"
#include "models/image_model.h"

namespace dtrain::models {
namespace {

thread_local int shapes_alone = 0;  // how many live
thread_local ForwardCost counted;   // of the pass on this thread

at::Tensor ShapeOf(at::IntArrayRef sizes) { return at::empty(sizes, at::TensorOptions(at::kMeta)); }

// How often the elements of a normalised activation are read or written in one step: by the statistics, forward, by the
// sums of backward, and by the gradients. ReLU of a sum keeps a bit for each, 1/16 of an element of a half type.
constexpr double kMask = 1.0 / 16;
constexpr double kNormMoves = 1 + 2 + 2 + 3;                         // also with ReLU or SiLU
constexpr double kPoolMoves = 1 + 1.4 + 1.6 + 2.6;                   // ReLU and max pooling
constexpr double kAddReluMoves = 1 + (3 + kMask) + (4 + kMask) + 3;  // the shortcut, and the second gradient
constexpr double kShortcutMoves = 1 + 0 + 1 + 2;                     // a normalised shortcut, in the same passes
constexpr double kAddMoves = kNormMoves + 1 + 3;
constexpr double kExcitedMoves = kNormMoves + 3 + 3;  // the means, and scaling by the excitation
constexpr double kLayerNormMoves = 4 + 4;             // with a residual sum, in one pass each way
constexpr double kActivationMoves = 2 + 3;            // GELU by itself

void CountMoves(const at::Tensor& x, double moves) {
  if (x.is_meta()) CountForward({.moved_elements = moves * static_cast<double>(x.numel())});
}

}  // namespace

ShapesAlone::ShapesAlone() { ++shapes_alone; }
ShapesAlone::~ShapesAlone() { --shapes_alone; }

at::Device DeviceOfNewWeights() { return shapes_alone > 0 ? at::kMeta : at::kCPU; }

void CountForward(const ForwardCost& layer) {
  counted.multiply_adds += layer.multiply_adds;
  counted.activation_elements += layer.activation_elements;
  counted.moved_elements += layer.moved_elements;
}

ForwardCost ImageModel::Cost(int64_t image_size) {
  const at::NoGradGuard no_grad;
  counted = {};
  forward(at::empty({1, 3, image_size, image_size}, at::TensorOptions(at::kMeta)));
  return counted;
}

BatchNorm2dImpl::BatchNorm2dImpl(int64_t channels, const BatchNormOptions& options) : options_(options) {
  const at::Tensor ones = at::ones(channels, DeviceOfNewWeights());
  weight = options.scales ? register_parameter("weight", ones) : register_buffer("weight", ones);
  bias = register_parameter("bias", at::zeros(channels, DeviceOfNewWeights()));
  running_mean = register_buffer("running_mean", at::zeros(channels, DeviceOfNewWeights()));
  running_var = register_buffer("running_var", at::ones(channels, DeviceOfNewWeights()));
  num_batches_tracked =
      register_buffer("num_batches_tracked", at::zeros({}, at::TensorOptions(at::kLong).device(DeviceOfNewWeights())));
}

void BatchNorm2dImpl::UseKernels(const DeviceKernels& kernels) {
  kernels_ = kernels.norm;
  if (kernels_ != nullptr) finished_ = ZeroCounters(weight);
}

bool BatchNorm2dImpl::UsesKernels(const at::Tensor& x_NCHW) const {
  return kernels_ != nullptr && is_training() && !x_NCHW.is_meta() && HasNormKernels(x_NCHW);
}

Normalisation BatchNorm2dImpl::Measure(const at::Tensor& x_NCHW) const {
  Normalisation norm{.kernels = kernels_,
                     .weight = weight,
                     .bias = bias,
                     .finished = finished_,
                     .sum = sum_over_ranks_ ? &sum_over_ranks_ : nullptr,
                     .epsilon = options_.epsilon};
  FindStatistics(x_NCHW, norm, {running_mean, running_var, num_batches_tracked, options_.momentum});
  return norm;
}

at::Tensor BatchNorm2dImpl::ForwardWithAten(const at::Tensor& x_NCHW) {
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
  const at::NoGradGuard no_grad;
  UpdateRunning(result.statistics, {running_mean, running_var, num_batches_tracked, options_.momentum});
  return result.output;
}

ResidualPair BatchNorm2dImpl::Activated(const at::Tensor& x_NCHW, Activation activation) {
  if (UsesKernels(x_NCHW)) {
    const at::Tensor x = ForNormKernels(x_NCHW);
    return Normalised(x, Measure(x), {.activation = activation});
  }
  CountMoves(x_NCHW, activation == Activation::kReluPool ? kPoolMoves : kNormMoves);
  at::Tensor y = ForwardWithAten(x_NCHW);
  if (activation == Activation::kSilu) {
    y = Silu(y);
  } else if (activation != Activation::kNone) {
    y.relu_();
    if (activation == Activation::kReluPool) y = at::max_pool2d(y, 3, 2, 1);
  }
  return {y, y};
}

ResidualPair BatchNorm2dImpl::AddRelu(const at::Tensor& x_NCHW, const std::function<at::Tensor()>& shortcut,
                                      BatchNorm2dImpl* shortcut_norm) {
  if (!UsesKernels(x_NCHW)) {
    at::Tensor y = ForwardWithAten(x_NCHW);
    const at::Tensor z = shortcut();
    CountMoves(x_NCHW, kAddReluMoves);
    if (shortcut_norm != nullptr) CountMoves(z, kShortcutMoves);
    y += shortcut_norm != nullptr ? shortcut_norm->ForwardWithAten(z) : z;
    y.relu_();
    return {y, y};
  }
  const at::Tensor x = ForNormKernels(x_NCHW);
  at::Tensor z = shortcut().to(x.scalar_type());
  const bool both = shortcut_norm != nullptr && shortcut_norm->UsesKernels(z);
  if (shortcut_norm != nullptr && !both) z = shortcut_norm->forward(z);
  z = ForNormKernels(z);
  const Normalisation norm = Measure(x);
  if (!both) return Normalised(x, norm, {.activation = Activation::kRelu, .z_NCHW = z});
  const Normalisation z_norm = shortcut_norm->Measure(z);
  return Normalised(x, norm, {.activation = Activation::kRelu, .z_NCHW = z, .z_norm = &z_norm});
}

ResidualPair BatchNorm2dImpl::Add(const at::Tensor& x_NCHW, const at::Tensor& shortcut_NCHW,
                                  const at::Tensor& factors_N111) {
  if (!UsesKernels(x_NCHW)) {
    CountMoves(x_NCHW, kAddMoves);
    at::Tensor y = ForwardWithAten(x_NCHW);
    if (factors_N111.defined()) y = y * factors_N111;
    y = y + shortcut_NCHW;
    return {y, y};
  }
  const at::Tensor x = ForNormKernels(x_NCHW);
  NormEpilogue epilogue{.z_NCHW = ForNormKernels(shortcut_NCHW.to(x.scalar_type()))};
  if (factors_N111.defined()) {
    epilogue.factors_NC = factors_N111.flatten(1).expand({x.size(0), x.size(1)}).to(x.scalar_type()).contiguous();
  }
  return Normalised(x, Measure(x), epilogue);
}

at::Tensor BatchNorm2dImpl::SqueezeExcite(const at::Tensor& x_NCHW, const Excitation& excitation) {
  if (UsesKernels(x_NCHW)) {
    const at::Tensor x = ForNormKernels(x_NCHW);
    return models::SqueezeExcite(x, Measure(x), excitation);
  }
  CountMoves(x_NCHW, kExcitedMoves);
  const at::Tensor y = Silu(ForwardWithAten(x_NCHW));
  return y * excitation(at::adaptive_avg_pool2d(y, {1, 1}));
}

at::Tensor PixelMeans(const at::Tensor& x_NCHW) {
  // The gradient of pooling is N×C×H×W whatever the format of x, and would be copied where memory is at its peak. The
  // mean is the same.
  const bool is_last = x_NCHW.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  if (!x_NCHW.is_cpu() && is_last) return x_NCHW.permute({0, 2, 3, 1}).mean({1, 2});
  return at::adaptive_avg_pool2d(x_NCHW, {1, 1}).flatten(1);
}

at::Tensor Silu(const at::Tensor& x) {
  if (x.is_meta()) CountForward({.activation_elements = x.numel()});
  return at::silu(x);
}

at::Tensor ExactGelu(const at::Tensor& x) {
  if (!x.is_meta()) return at::gelu(x);
  CountForward({.activation_elements = 2 * x.numel()});  // its own input, and that of the product after it
  CountMoves(x, kActivationMoves);
  return x;
}

at::Tensor DropSamples(const at::Tensor& x, double probability) {
  const double kept = 1 - probability;
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes.front() = x.size(0);
  const at::Tensor mask = at::empty(sizes, x.options()).bernoulli_(kept);
  return kept > 0 ? mask.div_(kept) : mask;
}

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, InitialWeights initial, bool has_bias) {
  weight = register_parameter("weight", at::empty({out_features, in_features}, DeviceOfNewWeights()));
  if (has_bias) bias = register_parameter("bias", at::zeros(out_features, DeviceOfNewWeights()));
  if (initial == InitialWeights::kNotYet) return;
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  torch::nn::init::uniform_(weight, -bound, bound);
  if (has_bias) torch::nn::init::uniform_(bias, -bound, bound);
}

at::Tensor LinearImpl::forward(const at::Tensor& x) {
  if (!x.is_meta()) return Product(x, GemmWeight(), bias);
  CountForward({.multiply_adds = x.numel() / x.size(-1) * weight.numel()});
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return ShapeOf(sizes);
}

const TextKernels* LinearImpl::KernelsFor(const at::Tensor& x) const {
  if (kernels_ == nullptr || !is_training() || x.is_meta() || x.numel() == 0) return nullptr;
  return HasElement(GemmType(x)) && weight.size(0) % kernels::kWidth == 0 ? kernels_ : nullptr;
}

at::Tensor LinearImpl::Multiplied(const at::Tensor& x) const { return at::linear(x.flatten(0, -2), GemmWeight()); }

at::Tensor LinearImpl::ThroughUnit(const at::Tensor& x, LinearUnit unit) {
  const bool fits = weight.size(0) % (HalvesOf(unit) * kernels::kWidth) == 0;
  if (const TextKernels* const kernels = fits ? KernelsFor(x) : nullptr) {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = weight.size(0) / HalvesOf(unit);
    return UnitOf(*kernels, unit, Multiplied(x), bias).view(sizes);
  }
  const at::Tensor y = forward(x);
  const std::vector<at::Tensor> parts = y.chunk(HalvesOf(unit), -1);
  switch (unit) {
    case LinearUnit::kGelu:
      break;
    case LinearUnit::kGatedGelu:
      return ExactGelu(parts[0]) * parts[1];
    case LinearUnit::kGatedSilu:
      return Silu(parts[0]) * parts[1];
  }
  return ExactGelu(y);
}

ResidualPair LinearImpl::AddedTo(const at::Tensor& residual, const at::Tensor& x, const Addition& addition) {
  const TextKernels* const kernels = KernelsFor(x);
  if (kernels != nullptr && weight.size(0) <= kernels::kMostColumnsOfRow) {
    ResidualNorm norm = addition.norm != nullptr ? addition.norm->parameters() : ResidualNorm();
    norm.x_bias = bias;
    norm.scale = addition.scale;
    norm.dropout = addition.dropout;
    if (addition.drops_samples) norm.rows_of_sample = x.numel() / x.size(0) / x.size(-1);
    const at::Tensor y = Multiplied(x);
    const auto add = addition.goes_on_normalised ? AddNormalised : SumNormalised;
    const ResidualPair sum = add(*kernels, y, residual.flatten(0, -2), norm);
    return {sum.main.view(residual.sizes()), sum.shortcut.view(residual.sizes())};
  }
  at::Tensor y = forward(x);
  if (y.is_meta()) {
    if (addition.scale.defined()) CountForward({.activation_elements = y.numel()});  // for the gradient of the scale
  } else {
    if (addition.scale.defined()) y = y * addition.scale;
    if (!addition.drops_samples) {
      y = Dropout(y, addition.dropout, is_training());
    } else if (is_training() && addition.dropout > 0) {
      y = y * DropSamples(y, addition.dropout);
    }
  }
  const at::Tensor sum = residual + y;
  if (addition.norm == nullptr) return {sum, sum};
  const at::Tensor normalised = addition.norm->forward(sum);
  return {normalised, addition.goes_on_normalised ? normalised : sum};
}

LayerNormImpl::LayerNormImpl(int64_t features, double epsilon, bool has_bias) : epsilon_(epsilon) {
  weight = register_parameter("weight", at::ones(features, DeviceOfNewWeights()));
  if (has_bias) bias = register_parameter("bias", at::zeros(features, DeviceOfNewWeights()));
}

at::Tensor LayerNormImpl::forward(const at::Tensor& x, const at::Tensor& x_bias) {
  if (x.is_meta()) {
    CountForward({.activation_elements = x.numel()});
    CountMoves(x, kLayerNormMoves);
    return x;
  }
  if (kernels_ != nullptr && is_training()) {
    const at::Tensor rows = x.flatten(0, -2);
    if (HasTextKernels(rows, rows.size(1))) {
      ResidualNorm norm = parameters();
      norm.x_bias = x_bias;
      return NormalisedFirst(*kernels_, rows, {}, norm, GemmType(x)).main.view(x.sizes());
    }
  }
  return at::layer_norm(x_bias.defined() ? x + x_bias : x, weight.sizes(), weight, bias, epsilon_);
}

at::Tensor LayerNormImpl::OverChannels(const at::Tensor& x_NCHW) {
  if (x_NCHW.is_meta()) return forward(x_NCHW);
  return forward(x_NCHW.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
}

EmbeddingImpl::EmbeddingImpl(int64_t rows, int64_t features, int64_t padding_row) : padding_row_(padding_row) {
  weight = register_parameter("weight", at::empty({rows, features}, DeviceOfNewWeights()));
}

at::Tensor EmbeddingImpl::forward(const at::Tensor& ids) { return at::embedding(weight, ids, padding_row_); }

std::shared_ptr<torch::nn::Module> Group(
    std::initializer_list<std::pair<const char*, std::shared_ptr<torch::nn::Module>>> children) {
  auto group = std::make_shared<torch::nn::Module>();
  for (const auto& [name, child] : children) group->register_module(name, child);
  return group;
}

torch::nn::Module& GroupAt(torch::nn::Module& root, std::string_view path) {
  if (path.empty()) return root;
  const size_t dot = path.rfind('.');
  torch::nn::Module& above = dot == std::string_view::npos ? root : GroupAt(root, path.substr(0, dot));
  const std::string name(path.substr(dot + 1));  // npos + 1 is 0
  const auto children = above.named_children();
  if (const auto* found = children.find(name)) return **found;
  return *above.register_module(name, Group({}));
}

void RegisterAt(torch::nn::Module& root, std::string_view path, std::shared_ptr<torch::nn::Module> module) {
  const size_t dot = path.rfind('.');
  GroupAt(root, dot == std::string_view::npos ? "" : path.substr(0, dot))
      .register_module(std::string(path.substr(dot + 1)), std::move(module));
}

void ChangeNorms(torch::nn::Module& model, const std::optional<double>& epsilon,
                 const std::optional<double>& momentum) {
  ForEach<LayerNormImpl>(model, [&](LayerNormImpl& norm) { norm.set_epsilon(epsilon.value_or(norm.epsilon())); });
  ForEach<BatchNorm2dImpl>(model, [&](BatchNorm2dImpl& norm) {
    norm.options() = {epsilon.value_or(norm.options().epsilon), momentum.value_or(norm.options().momentum)};
  });
}

void SynchronizeBatchNorm(torch::nn::Module& model, const SumOverRanks& sum) {
  ForEach<BatchNorm2dImpl>(model, [&sum](BatchNorm2dImpl& norm) { norm.Synchronize(sum); });
}

void UseKernels(torch::nn::Module& model, const DeviceKernels& kernels) {
  if (kernels == DeviceKernels()) return;
  ForEach<KernelUser>(model, [&kernels](KernelUser& layer) { layer.UseKernels(kernels); });
}

}  // namespace dtrain::models
