// The layers that torch::nn has too, but draws initial weights for that every model here draws again (25 M numbers of a
// ResNet-50, a tenth of a second at start), or cannot share statistics between ranks.
// Parameter names are torchvision's state_dict keys.
// A tensor of the meta device, which has a shape and no data, passes through each of them; what the layer would cost is
// counted then (forward_cost.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace dtrain::models {

struct NormReluDevice;  // norm_relu.h

// Adds a tensor over all ranks, in place. A model knows nothing of ranks but this.
using SumOverRanks = std::function<void(at::Tensor&)>;

struct Conv2dOptions {
  int64_t in_channels;
  int64_t out_channels;
  int64_t kernel_size;
  int64_t stride = 1;
  int64_t groups = 1;
  bool bias = false;
};

// Convolution, square kernel, padded by ⌊k/2⌋. `weight`: (out, in / groups, k, k), and `bias`: (out), where wanted;
// both uninitialised. Without groups the input may have channels of zeros behind those that the weight knows: a GPU's
// convolutions are made for multiples of four.
class Conv2dImpl : public torch::nn::Module {
 public:
  explicit Conv2dImpl(const Conv2dOptions& options);
  at::Tensor forward(const at::Tensor& x_NCHW);

  const Conv2dOptions options;
  at::Tensor weight, bias;
};
TORCH_MODULE(Conv2d);

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;
};

// Batch normalisation over (N, H, W). `weight` 1, `bias` 0 at first.
class BatchNorm2dImpl : public torch::nn::Module {
 public:
  explicit BatchNorm2dImpl(int64_t channels, const BatchNormOptions& options = {});
  at::Tensor forward(const at::Tensor& x_NCHW);

  BatchNormOptions& options() { return options_; }

  // From now on the statistics of a training step are those of the batches of all ranks together. `sum` must be called
  // by every rank in the same order, which equal models guarantee.
  void Synchronize(SumOverRanks sum) { sum_over_ranks_ = std::move(sum); }

  // ReLU(forward(x)); with a shortcut, ReLU(forward(x) + shortcut()). The shortcut is computed after the normalisation,
  // or before it where all is one operation (see Fuse): the order of backward passes, and of gradients, follows.
  at::Tensor ForwardRelu(const at::Tensor& x_NCHW, const std::function<at::Tensor()>& shortcut = nullptr);
  // From now on a training step's ForwardRelu is one operation of `device`, which outlives this, where its tensors
  // allow it and the statistics are of this rank alone.
  void Fuse(const NormReluDevice& device) { fused_ = &device; }

  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  BatchNormOptions options_;
  SumOverRanks sum_over_ranks_;
  const NormReluDevice* fused_ = nullptr;
};
TORCH_MODULE(BatchNorm2d);

// x · σ(x), elementwise (Elfwing et al. 2017, arXiv:1702.03118).
at::Tensor Silu(const at::Tensor& x);

enum class InitialWeights {
  kDrawn,   // as torch.nn draws them
  kNotYet,  // `weight` uninitialised, `bias` 0: the model draws all of its weights
};

// Fully connected layer with torch.nn.Linear's initial weights. `weight`: (out, in); `bias`: (out).
class LinearImpl : public torch::nn::Module {
 public:
  LinearImpl(int64_t in_features, int64_t out_features, InitialWeights initial = InitialWeights::kDrawn);
  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight, bias;
};
TORCH_MODULE(Linear);

// Layer normalisation over the last dimension. `weight` 1, `bias` 0 at first.
class LayerNormImpl : public torch::nn::Module {
 public:
  LayerNormImpl(int64_t features, double epsilon);
  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight, bias;

 private:
  double epsilon_;
};
TORCH_MODULE(LayerNorm);

// Rows by number. `weight`: (rows, features), uninitialised. The padding row (-1: none) gets no gradient from here.
class EmbeddingImpl : public torch::nn::Module {
 public:
  EmbeddingImpl(int64_t rows, int64_t features, int64_t padding_row = -1);
  at::Tensor forward(const at::Tensor& ids);

  at::Tensor weight;

 private:
  int64_t padding_row_;
};
TORCH_MODULE(Embedding);

// Gives every BatchNorm2d inside `model` another ε or momentum than its family has, where one is said.
void ChangeBatchNorm(torch::nn::Module& model, const std::optional<double>& epsilon,
                     const std::optional<double>& momentum);

// Every BatchNorm2d inside `model` shares its statistics (see BatchNorm2dImpl::Synchronize).
void SynchronizeBatchNorm(torch::nn::Module& model, const SumOverRanks& sum);

// Fuse for all BatchNorms of a model.
void FuseNorms(torch::nn::Module& model, const NormReluDevice& device);

}  // namespace dtrain::models
