// What every image classifier is: images in, logits out.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>

namespace dtrain::models {

// What one forward pass over one image takes; for plans and benchmarks.
struct ForwardCost {
  int64_t multiply_adds = 0;        // of convolutions and the classifier: 4.09e9 for ResNet-50 at 224 px
  int64_t activation_elements = 0;  // kept for the backward pass
};

class ImageModel : public torch::nn::Module {
 public:
  // (N, 3, H, W) float → logits (N, classes).
  virtual at::Tensor forward(const at::Tensor& images_NCHW) = 0;

  // For one image of size × size pixels.
  virtual ForwardCost Cost(int64_t image_size) const = 0;
};

}  // namespace dtrain::models
