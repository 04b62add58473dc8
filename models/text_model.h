// The interface of all models of text: an encoder of tokens, and a head that guesses words or classifies. Letters in
// names: N sequences, S tokens, R chosen ones of them, H hidden features, V words.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>

#include "models/forward_cost.h"
#include "models/sequences.h"
#include "models/text_options.h"

namespace dtrain::models {

class TextModel : public torch::nn::Module {
 public:
  // Returns the encoder's output for every token, S×H, or for those in `rows` (int64, R, places in the list; some may
  // occur twice) alone, R×H, which saves most of the last layer's work.
  virtual at::Tensor Encode(const Sequences& sequences, const at::Tensor& rows = {}) = 0;
  // The same for the first token of each sequence that is not a filler: N×H. Never waits for a device.
  at::Tensor EncodeFirst(const Sequences& sequences) { return Encode(sequences, FirstTokens(sequences)); }

  // With a head that guesses words: returns logits for rows of the encoder's output, R×H → R×V. If V is no multiple of
  // `columns_multiple`, columns of −∞ fill it up, which change neither a softmax nor its gradients: GPUs multiply
  // matrices of even sizes several times as fast (V is 50,265 for RoBERTa). kColumnsMultiple is a multiple of it.
  virtual at::Tensor Scores(const at::Tensor& /*hidden_RH*/, int64_t /*columns_multiple*/ = 1) { return {}; }

  // With a head that classifies: returns what it sees of each sequence, N×H, and its logits for such rows, R×H →
  // R×outputs, with the type of the encoder's output or, under autocast, of products. Never wait for a device. An
  // encoder alone returns what it is given.
  virtual at::Tensor Pooled(const Sequences& sequences) { return EncodeFirst(sequences); }
  virtual at::Tensor Classify(const at::Tensor& hidden_RH) { return hidden_RH; }
  virtual int64_t outputs() const { return 0; }  // 0: there is no such head
  at::Tensor forward(const Sequences& sequences) { return Classify(Pooled(sequences)); }

  // Returns the cost of `tokens` tokens in sequences of `length`, of which `rows` go through the head.
  virtual ForwardCost Cost(int64_t tokens, int64_t length, int64_t rows) const = 0;

  // Returns the number of features of a head that attends within a window; 0: none does.
  virtual int64_t features_in_window() const { return 0; }

  const TextShape& shape() const { return shape_; }

  // The number of columns of a product's result that GPUs are fast at, for types of two bytes.
  static constexpr int64_t kColumnsMultiple = 64;

 protected:
  explicit TextModel(const TextShape& shape) : shape_(shape) {}

 private:
  const TextShape shape_;
};

}  // namespace dtrain::models
