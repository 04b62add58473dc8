// Replacements for layers of torch::nn, which draw initial weights that every model here draws again (25 M numbers of a
// ResNet-50, a tenth of a second at start) or cannot share statistics between ranks. Parameter names are torchvision's
// state_dict keys. A tensor of the meta device, which has a shape but no data, may pass through each layer, which then
// counts its cost (forward_cost.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "models/convolution.h"
#include "models/half_weights.h"
#include "models/norm_kernels.h"
#include "models/text_kernels.h"

namespace dtrain::models {

// While one lives, what this thread makes of layers has shapes, but neither memory nor values: its weights are of the
// meta device. So a model's size is known before there is room for it.
class ShapesAlone {
 public:
  ShapesAlone();
  ~ShapesAlone();
  ShapesAlone(const ShapesAlone&) = delete;
  ShapesAlone& operator=(const ShapesAlone&) = delete;
};

// Where layers make their weights: on the CPU, or, while there is a ShapesAlone, on the meta device.
at::Device DeviceOfNewWeights();

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool scales = true;  // else `weight` is a buffer of ones
};

// Batch normalisation over (N, H, W). Initially `weight` is 1 and `bias` 0. In training steps, it and what follows it
// are one operation of the device's kernels, if there are any for the tensors.
class BatchNorm2dImpl : public torch::nn::Module, public KernelUser {
 public:
  explicit BatchNorm2dImpl(int64_t channels, const BatchNormOptions& options = {});
  at::Tensor forward(const at::Tensor& x_NCHW) { return Activated(x_NCHW, Activation::kNone).main; }

  BatchNormOptions& options() { return options_; }

  // From now on, training steps use the statistics of all ranks' batches together. Every rank must call `sum` in the
  // same order, which equal models guarantee. `sum` must be callable until the last backward pass.
  void Synchronize(SumOverRanks sum) { sum_over_ranks_ = std::move(sum); }

  // Returns the activation of the normalised x. kReluPool is ReLU and max pooling of 3×3 windows, stride 2, padding 1.
  ResidualPair Activated(const at::Tensor& x_NCHW, Activation activation);

  // Returns ReLU(forward(x) + shortcut()), with `shortcut_norm` (null: none) applied to the shortcut. The shortcut is
  // computed after the normalisation, but before it if both are one operation. That decides the order of the backward
  // passes, and so the order in which gradients arrive.
  ResidualPair AddRelu(const at::Tensor& x_NCHW, const std::function<at::Tensor()>& shortcut,
                       BatchNorm2dImpl* shortcut_norm = nullptr);

  // Returns forward(x) [· factors] + shortcut. The factors (N, 1, 1, 1) may be undefined.
  ResidualPair Add(const at::Tensor& x_NCHW, const at::Tensor& shortcut_NCHW, const at::Tensor& factors_N111);

  // Returns y · excitation(means of y over the pixels) for y = SiLU(forward(x)). The means, and so the factors, are
  // (N, C) in the device's kernels, else (N, C, 1, 1).
  at::Tensor SqueezeExcite(const at::Tensor& x_NCHW, const Excitation& excitation);

  void UseKernels(const DeviceKernels& kernels) override;

  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  bool UsesKernels(const at::Tensor& x_NCHW) const;
  // Finds the statistics of x = ForNormKernels(…).
  Normalisation Measure(const at::Tensor& x_NCHW) const;
  at::Tensor ForwardWithAten(const at::Tensor& x_NCHW);

  BatchNormOptions options_;
  SumOverRanks sum_over_ranks_;
  const NormKernels* kernels_ = nullptr;
  at::Tensor finished_;  // of Normalisation
};
TORCH_MODULE(BatchNorm2d);

// Returns the means over the pixels, (N, C). Their gradient has the memory format of x, except on a CPU.
at::Tensor PixelMeans(const at::Tensor& x_NCHW);

// x · σ(x), elementwise (Elfwing et al. 2017, arXiv:1702.03118).
at::Tensor Silu(const at::Tensor& x);

// x · Φ(x), elementwise (Hendrycks and Gimpel 2016, arXiv:1606.08415).
at::Tensor ExactGelu(const at::Tensor& x);

// Returns a factor for each sample, in the shape (N, 1, …), which sets it to zero with this probability and scales it
// up otherwise, so that the mean stays the same (stochastic depth, arXiv:1603.09382).
at::Tensor DropSamples(const at::Tensor& x, double probability);

enum class InitialWeights {
  kDrawn,   // drawn like torch.nn's
  kNotYet,  // `weight` is uninitialised and `bias` 0, because the model draws all of its weights
};

class LayerNormImpl;

// What is done to the result of a product before it is added to a residual.
struct Addition {
  at::Tensor scale = {};  // (out), by which it is multiplied (Touvron et al. 2021, arXiv:2103.17239); undefined: 1
  double dropout = 0;
  bool drops_samples = false;       // as a whole (DropSamples), not single elements
  LayerNormImpl* norm = nullptr;    // of the sum; null: none
  bool goes_on_normalised = false;  // the norm takes the place of the sum, as in post-norm networks
};

// Fully connected layer with torch.nn.Linear's initial weights. `weight`: (out, in); `bias`: (out), or undefined. In
// training steps, it and what follows it are passes of the device's kernels, if there are any for the tensors; results
// then have the type of products.
class LinearImpl : public torch::nn::Module, public HalfWeightUser, public TextKernelUser {
 public:
  LinearImpl(int64_t in_features, int64_t out_features, InitialWeights initial = InitialWeights::kDrawn,
             bool has_bias = true);
  at::Tensor forward(const at::Tensor& x);
  void UseHalfWeights(HalfWeights& copies) override { half_weight_ = copies.CopyOf({weight}); }

  // Returns forward(x) through GELU, or its first half through GELU or SiLU, times the second half.
  at::Tensor ThroughUnit(const at::Tensor& x, LinearUnit unit);

  // Returns residual + forward(x), changed as `addition` says, as the shortcut, and its norm as the main one. Where
  // there is but one of them, it is both.
  ResidualPair AddedTo(const at::Tensor& residual, const at::Tensor& x, const Addition& addition);

  // Returns the kernels for what follows x · weightᵀ; null: there are none for this step.
  const TextKernels* KernelsFor(const at::Tensor& x) const;

  // Returns x · weightᵀ, (rows, out_features), for these kernels.
  at::Tensor Multiplied(const at::Tensor& x) const;

  // Returns what forward multiplies by: the weight, or its copy.
  at::Tensor GemmWeight() const { return ForProducts(*this, half_weight_, weight); }

  at::Tensor weight, bias;  // bias: undefined if there is none

 private:
  HalfWeight half_weight_;
};
TORCH_MODULE(Linear);

// Layer normalisation over the last dimension. Initially `weight` is 1 and `bias` 0. Has kernels as LinearImpl has.
class LayerNormImpl : public torch::nn::Module, public TextKernelUser {
 public:
  LayerNormImpl(int64_t features, double epsilon, bool has_bias = true);
  // Returns the norm of x, or, if there is an `x_bias` (features), of x + x_bias.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& x_bias = {});

  // Returns the normalisation over the channels of each pixel, channels last.
  at::Tensor OverChannels(const at::Tensor& x_NCHW);

  ResidualNorm parameters() const { return {.x_bias = {}, .weight = weight, .bias = bias, .epsilon = epsilon_}; }
  double epsilon() const { return epsilon_; }
  void set_epsilon(double epsilon) { epsilon_ = epsilon; }

  at::Tensor weight, bias;  // bias: undefined if there is none

 private:
  double epsilon_;
};
TORCH_MODULE(LayerNorm);

// Looks up rows by number. `weight` (rows, features) is uninitialised. The padding row (-1: none) gets no gradient from
// lookups.
class EmbeddingImpl : public torch::nn::Module {
 public:
  EmbeddingImpl(int64_t rows, int64_t features, int64_t padding_row = -1);
  at::Tensor forward(const at::Tensor& ids);

  at::Tensor weight;

 private:
  int64_t padding_row_;
};
TORCH_MODULE(Embedding);

// Returns a module without weights of its own, which adds its name to the names of its children.
std::shared_ptr<torch::nn::Module> Group(
    std::initializer_list<std::pair<const char*, std::shared_ptr<torch::nn::Module>>> children);

// Returns the module at a path such as `attention.self` below `root`. What is missing of the path becomes Groups.
torch::nn::Module& GroupAt(torch::nn::Module& root, std::string_view path);

// Registers `module` at a path below `root`, whose last part is its own name.
void RegisterAt(torch::nn::Module& root, std::string_view path, std::shared_ptr<torch::nn::Module> module);

// Calls `call` with every layer of this type inside `model`, those above before their parts.
template <typename Layer, typename Call>
void ForEach(torch::nn::Module& model, const Call& call) {
  model.apply([&call](torch::nn::Module& module) {
    if (auto* layer = dynamic_cast<Layer*>(&module)) call(*layer);
  });
}

// Changes ε of every BatchNorm2d and LayerNorm inside `model`, and momentum of the former. An empty value leaves the
// model's own.
void ChangeNorms(torch::nn::Module& model, const std::optional<double>& epsilon, const std::optional<double>& momentum);

// Call BatchNorm2dImpl::Synchronize, and KernelUser::UseKernels if the device has any, of every one inside `model`.
void SynchronizeBatchNorm(torch::nn::Module& model, const SumOverRanks& sum);
void UseKernels(torch::nn::Module& model, const DeviceKernels& kernels);

}  // namespace dtrain::models
