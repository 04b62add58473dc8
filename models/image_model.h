// The interface of all image classifiers: images in, logits out.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "models/forward_cost.h"

namespace dtrain::models {

// Empty: the model's own. Family::options says which ones a model uses.
struct ImageModelOptions {
  int64_t num_classes = 1000;
  bool zero_init_residual = false;
  std::optional<double> dropout = {};
  std::optional<double> drop_path = {};
};

class ImageModel : public torch::nn::Module {
 public:
  // float (N, 3, H, W) → what the classifier sees: the pooled features (N, C). A fourth channel of zeros does not
  // change them.
  virtual at::Tensor Features(const at::Tensor& images_NCHW) = 0;
  // Features → logits (N, classes).
  virtual at::Tensor Classify(const at::Tensor& features_NC) = 0;
  // The same for each of its classifiers by itself, of which Classify is the mean: that of the labels first, that of a
  // teacher last. A model has one, unless it has a second token.
  virtual std::vector<at::Tensor> ClassifyEach(const at::Tensor& features_NC) { return {Classify(features_NC)}; }
  // Returns the number of features, C.
  virtual int64_t NumFeatures() const { return parameters().end()[-2].size(1); }  // the classifier comes last
  at::Tensor forward(const at::Tensor& images_NCHW) { return Classify(Features(images_NCHW)); }

  // Returns the cost of one image of size × size pixels, for plans and benchmarks.
  ForwardCost Cost(int64_t image_size);
};

}  // namespace dtrain::models
