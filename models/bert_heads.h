// The heads of encoders of the kind of BERT: one guesses words, the other classifies sequences or tokens. Families
// differ in the names of the layers, and in the activation. Letters in names: R chosen tokens, H hidden features, V
// words.
#pragma once

#include <cstdint>

#include "models/bert_encoder.h"

namespace dtrain::models {

// Returns the logits of words by their embeddings, R×V, which may have more columns (TextModel::Scores). `half_words`
// are copies of the embeddings for training steps, or null.
at::Tensor WordScores(const at::Tensor& x_RH, const at::Tensor& words_VH, const at::Tensor& bias_V,
                      int64_t columns_multiple, const HalfWeight* half_words);

// The encoder without a head.
class BertAlone : public BertEncoder {
 public:
  BertAlone(const char* backbone, const EncoderOptions& options) : BertEncoder(backbone, options) {}
  ForwardCost Cost(int64_t tokens, int64_t length, int64_t /*rows*/) const override {
    return EncoderCost(tokens, length, /*rows=*/tokens);
  }
};

// Where a head that guesses words has its layers. The defaults are RoBERTa's.
struct WordHeadNames {
  const char *dense = "lm_head.dense", *norm = "lm_head.layer_norm";
  const char* module = "lm_head";  // has the parameter `bias`
};

// Guesses words: a dense layer, GELU, LayerNorm, and the words' embeddings as decoder, with a bias.
class BertForMaskedLM : public BertEncoder, public HalfWeightUser {
 public:
  // Draws initial weights from torch's default generator: normal, but biases and the rows of padding are 0.
  BertForMaskedLM(const char* backbone, const EncoderOptions& options, const WordHeadNames& names);

  at::Tensor Scores(const at::Tensor& hidden_RH, int64_t columns_multiple = 1) override;
  ForwardCost Cost(int64_t tokens, int64_t length, int64_t rows) const override;

  void UseHalfWeights(HalfWeights& copies) override { half_words_ = copies.CopyOf({words_VH()}, kColumnsMultiple); }

 private:
  // Returns what the words' embeddings are multiplied by.
  at::Tensor ForWords(const at::Tensor& hidden_RH);

  Linear head_dense_{nullptr};
  LayerNorm head_norm_{nullptr};
  at::Tensor head_bias_;
  HalfWeight half_words_;  // with rows of zeros, whose columns of scores are filled up
};

// How a head classifies: sequences by an inner layer, output(dropout(activation(dense(x)))), tokens without it,
// output(dropout(x)).
struct ClassifierForm {
  const char *output = "classifier", *dense = nullptr;  // null: there is no inner layer
  at::Tensor (*activation)(const at::Tensor&) = nullptr;
  bool drops_input = false;  // dropout is applied before the inner layer, too
};

// Classifies sequences by their first tokens, <s> or [CLS], or each token.
class BertClassifier : public BertEncoder {
 public:
  // Draws initial weights as BertForMaskedLM does.
  BertClassifier(const char* backbone, const EncoderOptions& options, const ClassifierForm& form, int64_t outputs,
                 double dropout);

  at::Tensor Pooled(const Sequences& sequences) override {
    return form_.dense == nullptr ? Encode(sequences) : EncodeFirst(sequences);
  }
  at::Tensor Classify(const at::Tensor& hidden_RH) override;
  int64_t outputs() const override { return output_->weight.size(0); }
  ForwardCost Cost(int64_t tokens, int64_t length, int64_t rows) const override;

 private:
  const ClassifierForm form_;
  const double dropout_;
  Linear dense_{nullptr}, output_{nullptr};
};

}  // namespace dtrain::models
