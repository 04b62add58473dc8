// RoBERTa with a head: Liu et al. 2019 (arXiv:1907.11692). Parameter names and logits are those of transformers'
// classes of the same names, except that the masked-LM decoder has no names of its own: its weight is the word
// embedding and its bias is lm_head.bias. Letters in names: N sequences, H hidden features, R chosen tokens, V words.
#pragma once

#include <cstdint>

#include "models/roberta_encoder.h"

namespace dtrain::models {

// Guesses words.
class RobertaForMaskedLM : public RobertaEncoder, public HalfWeightUser {
 public:
  // Draws initial weights from torch's default generator: normal, but biases and the rows of padding are 0.
  explicit RobertaForMaskedLM(const RobertaOptions& options);

  // Returns logits for rows of the encoder's output: R×H → R×V. If V is no multiple of `columns_multiple`, columns of
  // −∞ fill it up, which change neither a softmax nor its gradients: GPUs multiply matrices of even sizes several times
  // as fast (V is 50,265 for RoBERTa). kColumnsMultiple is a multiple of it.
  at::Tensor Scores(const at::Tensor& hidden_RH, int64_t columns_multiple = 1);

  // The number of columns of a product's result that GPUs are fast at, for types of two bytes.
  static constexpr int64_t kColumnsMultiple = 64;

  void UseHalfWeights(HalfWeights& copies) override { half_words_ = copies.CopyOf({words_VH()}, kColumnsMultiple); }

  // Returns the cost of `tokens` tokens in sequences of `length`, of which `scored` go through the head.
  ForwardCost Cost(int64_t tokens, int64_t length, int64_t scored) const;

 private:
  // Returns what the words' embeddings are multiplied by.
  at::Tensor ForWords(const at::Tensor& hidden_RH);

  Linear head_dense_{nullptr};
  LayerNorm head_norm_{nullptr};
  at::Tensor head_bias_;
  HalfWeight half_words_;  // with rows of zeros, whose columns of scores are filled up
};

// Classifies sequences, or gives each a number (one output), by its first token, <s>.
class RobertaForSequenceClassification : public RobertaEncoder {
 public:
  // `classifier_dropout` is applied before both layers of the head. Draws initial weights as RobertaForMaskedLM does.
  RobertaForSequenceClassification(const RobertaOptions& options, int64_t outputs, double classifier_dropout);

  // Returns logits, N×outputs, with the type of the encoder's output or, under autocast, of products. Never waits for a
  // device.
  at::Tensor forward(const Sequences& sequences);

  int64_t outputs() const { return out_proj_->weight.size(0); }

  // Returns the cost of `count` sequences of `length` tokens each.
  ForwardCost Cost(int64_t count, int64_t length) const;

 private:
  double classifier_dropout_;
  Linear dense_{nullptr}, out_proj_{nullptr};
};

}  // namespace dtrain::models
