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

// Attention, then two dense layers; the result of each is added to its input and then normalised.
class RobertaLayerImpl : public torch::nn::Module {
 public:
  explicit RobertaLayerImpl(const RobertaOptions& options);
  at::Tensor forward(const at::Tensor& x_SH, const Sequences& sequences);

 private:
  at::Tensor Dropped(const at::Tensor& x) const;

  int64_t heads_;
  double dropout_, attention_dropout_;
  Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, attention_output_{nullptr};
  Linear intermediate_{nullptr}, output_{nullptr};
  LayerNorm attention_norm_{nullptr}, output_norm_{nullptr};
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
