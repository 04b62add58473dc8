// EfficientNet-B0…B7: Tan and Le 2019 (arXiv:1905.11946), and EfficientNetV2: Tan and Le 2021 (arXiv:2104.00298).
// Parameter names, logits, BatchNorm's ε and momentum, and the distribution of initial weights are torchvision's. Those
// of tf_efficientnet… are timm's: with TensorFlow's padding and ε, as the authors' models and Hugging Face's have them.
#pragma once

#include <torch/nn/modules/container/modulelist.h>

#include <cstdint>
#include <vector>

#include "models/image_model.h"
#include "models/layers.h"

namespace dtrain::models {

struct EfficientNetStage {
  int64_t expansion, kernel_size, stride, in_channels, out_channels, blocks;
  bool fused = false;  // V2: expands and filters in one convolution, and weighs no channels
};

struct EfficientNetOptions {
  std::vector<EfficientNetStage> stages;
  int64_t head_channels = 1280;  // inputs of the classifier
  double dropout = 0.2;          // before the classifier
  double drop_path = 0.2;        // stochastic depth (arXiv:1603.09382), by row: block i of n drops drop_path · i / n
  BatchNormOptions norm = {};
  bool pads_as_tensorflow = false;  // as Conv2dOptions
  int64_t num_classes = 1000;
};

// Convolution, BatchNorm and an optional SiLU.
class ConvNormImpl : public torch::nn::Module {
 public:
  ConvNormImpl(const Conv2dOptions& conv, const BatchNormOptions& norm, Activation activation);
  ResidualPair forward(const at::Tensor& x_NCHW);
  // As BatchNorm2dImpl's, of the convolution's result. Add is for no activation, SqueezeExcite for SiLU.
  ResidualPair Add(const at::Tensor& x_NCHW, const at::Tensor& shortcut_NCHW, const at::Tensor& factors_N111);
  at::Tensor SqueezeExcite(const at::Tensor& x_NCHW, const Excitation& excitation);

 private:
  Conv2d conv_{nullptr};
  BatchNorm2d norm_{nullptr};
  Activation activation_;
};
TORCH_MODULE(ConvNorm);

// Squeeze-and-excitation scales each channel by a factor computed from the means of all channels (Hu et al. 2017,
// arXiv:1709.01507). This is the network that computes the factors, which have the shape of the means.
class SqueezeExcitationImpl : public torch::nn::Module {
 public:
  SqueezeExcitationImpl(int64_t channels, int64_t squeezed_channels);
  at::Tensor forward(const at::Tensor& means);

 private:
  Conv2d fc1_{nullptr}, fc2_{nullptr};
};
TORCH_MODULE(SqueezeExcitation);

// Mobile inverted bottleneck: expands the channels, filters each one, weighs them, and projects; with a shortcut if the
// shapes allow it.
class MbConvImpl : public torch::nn::Module {
 public:
  struct Options {
    int64_t expansion, kernel_size, stride, in_channels, out_channels;
    double drop_path;  // probability that a training sample skips the block
    BatchNormOptions norm;
    bool pads_as_tensorflow;
    bool fused;
  };
  explicit MbConvImpl(const Options& options);
  ResidualPair forward(const ResidualPair& x_NCHW);

 private:
  Options options_;
  // expand_ is null without expansion; if fused, there is no filter_, and without expansion no project_.
  ConvNorm expand_{nullptr}, filter_{nullptr}, project_{nullptr};
  SqueezeExcitation weigh_{nullptr};
};
TORCH_MODULE(MbConv);

class EfficientNet : public ImageModel {
 public:
  explicit EfficientNet(const EfficientNetOptions& options);
  at::Tensor Features(const at::Tensor& images_NCHW) override;
  at::Tensor Classify(const at::Tensor& features_NC) override;

 private:
  void Initialize();

  double dropout_;
  ConvNorm stem_{nullptr}, head_{nullptr};
  std::vector<MbConv> blocks_;
  Linear classifier_{nullptr};
};

}  // namespace dtrain::models
