// Copies of weights in the half type in which autocast multiplies. Autocast itself casts every weight in every forward
// pass. These copies stay at the same addresses from step to step, and whoever changes the weights writes them again,
// all in one pass. Several weights may be the rows of one copy, for one product with all of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace dtrain::models {

// What a layer has of a copy.
class HalfWeight {
 public:
  HalfWeight() = default;  // there is no copy
  HalfWeight(std::vector<at::Tensor> weights, at::Tensor copy) : weights_(std::move(weights)), copy_(std::move(copy)) {}

  // Returns the first rows of the copy (kAll: all of them), a differentiable function of the weights. Returns an
  // undefined tensor if there is no copy, or if autocast does not multiply in its type now.
  at::Tensor Rows(int64_t count = kAll) const;
  static constexpr int64_t kAll = -1;

 private:
  std::vector<at::Tensor> weights_;
  at::Tensor copy_;
};

// Returns what a layer multiplies by: in training steps the copy of its weight, if there is one, and the weight
// otherwise. An evaluation may have other weights, those of an average.
inline at::Tensor ForProducts(const torch::nn::Module& layer, const HalfWeight& half, const at::Tensor& weight) {
  const at::Tensor copy = layer.is_training() ? half.Rows() : at::Tensor();
  return copy.defined() ? copy : weight;
}

// The copies of a model's weights. They are right after Write, until a weight changes.
class HalfWeights {
 public:
  HalfWeights() = default;  // without any
  // Makes copies for all layers of the model that are a HalfWeightUser. In training steps they use them from now on.
  // Makes none if the type is float32.
  HalfWeights(const torch::nn::Module& model, at::ScalarType type);

  // Returns a copy of weights of equal row sizes, one below the other, and below them as many rows of zeros as make
  // the number of rows a multiple. There is none for weights that are not float32. A weight is copied once: if it is a
  // part of a copy already, and asked for alone, the result is that part.
  HalfWeight CopyOf(const std::vector<at::Tensor>& weights, int64_t rows_multiple = 1);

  // To be called after each change of the weights, unless who changed them has also written the parts. The host does
  // not wait for the device.
  void Write() const;

  // Returns the part of a copy that is this weight's; undefined if there is none.
  at::Tensor PartOf(const at::Tensor& weight) const;

 private:
  at::ScalarType type_{};
  std::vector<at::Tensor> weights_, parts_;              // each weight, and its part of a copy
  std::unordered_map<const void*, at::Tensor> part_of_;  // by the weight's implementation
};

// A layer that multiplies by weights.
class HalfWeightUser {
 public:
  virtual ~HalfWeightUser() = default;
  virtual void UseHalfWeights(HalfWeights& copies) = 0;
};

}  // namespace dtrain::models
