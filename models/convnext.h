// ConvNeXt (Liu et al. 2022, arXiv:2201.03545) and ConvNeXt V2 (Woo et al. 2023, arXiv:2301.00808). Names, logits and
// the distribution of initial weights are timm's.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/image_model.h"
#include "models/layers.h"

namespace dtrain::models {

struct ConvNextOptions {
  std::array<int64_t, 4> blocks;  // per stage
  int64_t width;                  // channels of the first stage; each has twice as many as the one before
  bool second = false;            // V2: global response normalisation in place of LayerScale
  double dropout = 0;             // before the classifier
  double drop_path = 0;           // stochastic depth, from 0 in the first block to this in the last
  int64_t num_classes = 1000;

  // timm's small members have their products as 1×1 convolutions: two more dimensions of size 1 in the weights.
  bool convolves() const { return width < 96; }
};

// A product over the channels of each pixel, N×H×W×C.
struct PixelProduct {
  PixelProduct(int64_t in_channels, int64_t out_channels, bool convolves);
  at::Tensor operator()(const at::Tensor& x_NHWC);
  // Returns the result times gamma (C), if that is defined.
  at::Tensor Scaled(const at::Tensor& x_NHWC, const at::Tensor& gamma_C);
  std::shared_ptr<torch::nn::Module> module() const;

  Conv2d convolution{nullptr};
  Linear linear{nullptr};
};

// Depthwise 7×7 convolution, LayerNorm, and two products, the first to four times the channels; added to the input.
class ConvNextBlockImpl : public torch::nn::Module {
 public:
  ConvNextBlockImpl(int64_t channels, const ConvNextOptions& options, double drop_path);
  at::Tensor forward(const at::Tensor& x_NCHW);

 private:
  double drop_path_;
  Conv2d filter_{nullptr};
  LayerNorm norm_{nullptr};
  PixelProduct expand_, project_;
  at::Tensor gamma_, response_weight_, response_bias_;  // undefined where there is none
};
TORCH_MODULE(ConvNextBlock);

class ConvNext : public ImageModel {
 public:
  explicit ConvNext(const ConvNextOptions& options);
  at::Tensor Features(const at::Tensor& images_NCHW) override;
  at::Tensor Classify(const at::Tensor& features_NC) override;

 private:
  // A convolution without overlap, and a norm before it, or behind it in the stem.
  struct Stage {
    LayerNorm norm{nullptr};
    Conv2d convolution{nullptr};
    std::vector<ConvNextBlock> blocks;
  };

  double dropout_;
  std::array<Stage, 4> stages_;
  LayerNorm norm_{nullptr};
  Linear classifier_{nullptr};
};

}  // namespace dtrain::models
