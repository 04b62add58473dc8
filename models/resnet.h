// ResNet-18/34/50/101/152: He et al. 2015 (arXiv:1512.03385), in the form v1.5: a bottleneck strides in its 3×3
// convolution. Parameter names and logits are torchvision's.
#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <array>
#include <string>
#include <vector>

#include "models/image_model.h"
#include "models/layers.h"

namespace dtrain::models {

struct ResNetOptions {
  bool bottleneck;
  std::array<int64_t, 4> blocks;  // per stage
  int64_t num_classes = 1000;
  bool zero_init_residual = false;  // γ = 0 in the last BatchNorm of each block, which then starts as the identity
};

// Two 3×3 convolutions (basic) or 1×1, 3×3, 1×1 (bottleneck) around a shortcut.
class ResidualBlockImpl : public torch::nn::Module {
 public:
  ResidualBlockImpl(bool bottleneck, int64_t in_channels, int64_t width, int64_t stride);
  ResidualPair forward(const ResidualPair& x_NCHW);

  // Returns the convolutions in order, the shortcut's last.
  std::vector<Conv2d> convolutions() const;
  BatchNorm2d last_norm() const { return bottleneck_ ? bn3_ : bn2_; }
  int64_t out_channels() const { return out_channels_; }

 private:
  bool bottleneck_;
  int64_t out_channels_;
  Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  BatchNorm2d bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(ResidualBlock);

class ResNet : public ImageModel {
 public:
  explicit ResNet(const ResNetOptions& options);
  at::Tensor Features(const at::Tensor& images_NCHW) override;
  at::Tensor Classify(const at::Tensor& features_NC) override { return fc_(features_NC); }

 private:
  void Initialize(bool zero_init_residual);

  Conv2d conv1_{nullptr};
  BatchNorm2d bn1_{nullptr};
  std::vector<std::vector<ResidualBlock>> stages_;
  Linear fc_{nullptr};
};

}  // namespace dtrain::models
