// RoBERTa with its masked-LM head: Liu et al. 2019 (arXiv:1907.11692), the post-LN encoder of BERT. Parameter names and
// logits are those of transformers' RobertaForMaskedLM, except that the decoder has no names of its own: its weight is
// the word embedding and its bias is lm_head.bias. Letters in names: S tokens, H hidden features, R chosen tokens, V
// words.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

#include "models/forward_cost.h"
#include "models/layers.h"
#include "models/roberta_options.h"
#include "models/sequences.h"
#include "models/text_kernels.h"

namespace dtrain::models {

class RobertaEmbeddingsImpl : public torch::nn::Module {
 public:
  explicit RobertaEmbeddingsImpl(const RobertaOptions& options);
  at::Tensor forward(const Sequences& sequences);  // S×H

  Embedding word_embeddings{nullptr}, position_embeddings{nullptr}, token_type_embeddings{nullptr};

 private:
  LayerNorm norm_{nullptr};
  double dropout_;
};
TORCH_MODULE(RobertaEmbeddings);

// Attention, then two dense layers; the result of each is added to its input and then normalised. In training steps,
// all between the products is done by the device's kernels, if there are any for the tensors. Results then have the
// type of products.
class RobertaLayerImpl : public torch::nn::Module {
 public:
  explicit RobertaLayerImpl(const RobertaOptions& options);
  // One of the two is the input of products, the other is what their result is added to.
  Forked forward(const Forked& x_SH, const Sequences& sequences);

  // From now on, training steps use these kernels, which must be of the parameters' device and outlive this object.
  void UseKernels(const TextKernels& kernels) { kernels_ = &kernels; }

 private:
  bool UsesKernels(const at::Tensor& x_SH) const;
  Forked ForwardWithAten(const at::Tensor& x_SH, const Sequences& sequences);
  Forked ForwardWithKernels(const Forked& x_SH, const Sequences& sequences);
  // Returns the layer norm of z + dropout(product's result).
  Forked AddNormalised(const at::Tensor& x_SH, Linear& product, const at::Tensor& z_SH, LayerNorm& norm) const;
  at::Tensor Dropped(const at::Tensor& x) const;

  int64_t heads_;
  double dropout_, attention_dropout_;
  Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, attention_output_{nullptr};
  Linear intermediate_{nullptr}, output_{nullptr};
  LayerNorm attention_norm_{nullptr}, output_norm_{nullptr};
  const TextKernels* kernels_ = nullptr;
};
TORCH_MODULE(RobertaLayer);

class RobertaForMaskedLM : public torch::nn::Module {
 public:
  // Draws initial weights from torch's default generator: normal, but biases and the rows of padding are 0.
  explicit RobertaForMaskedLM(const RobertaOptions& options);

  // Returns the encoder's output for every token: S×H.
  at::Tensor Encode(const Sequences& sequences);

  // Returns logits for rows of the encoder's output: R×H → R×V. If V is no multiple of `columns_multiple`, columns of
  // −∞ fill it up, which change neither a softmax nor its gradients: GPUs multiply matrices of even sizes several times
  // as fast (V is 50,265 for RoBERTa).
  at::Tensor Scores(const at::Tensor& hidden_RH, int64_t columns_multiple = 1);

  // Calls RobertaLayerImpl::UseKernels of every layer.
  void UseKernels(const TextKernels& kernels);

  const RobertaOptions& options() const { return options_; }

  // Returns the cost of `tokens` tokens in sequences of `length`, of which `scored` go through the head.
  ForwardCost Cost(int64_t tokens, int64_t length, int64_t scored) const;

 private:
  void DrawWeights();

  RobertaOptions options_;
  RobertaEmbeddings embeddings_{nullptr};
  std::vector<RobertaLayer> layers_;
  Linear head_dense_{nullptr};
  LayerNorm head_norm_{nullptr};
  at::Tensor head_bias_;
};

}  // namespace dtrain::models
