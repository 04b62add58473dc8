// The post-LN encoder of BERT: Devlin et al. 2018 (arXiv:1810.04805), which RoBERTa has, too, and its heads: one
// guesses words, the other classifies sequences or tokens. Families differ in the names of the layers, and in the
// activation of a head. Results are those of transformers' models without their poolers. Letters in names: S tokens, R
// chosen ones of them, H hidden features, V words.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/layers.h"
#include "models/text_model.h"

namespace dtrain::models {

// Where a family has the parts of its encoder, below the encoder's own name. The defaults are BERT's.
struct EncoderNames {
  const char* layers = "encoder.layer";
  // In each layer.
  const char *query = "attention.self.query", *key = "attention.self.key", *value = "attention.self.value";
  const char *attention_output = "attention.output.dense", *attention_norm = "attention.output.LayerNorm";
  const char *intermediate = "intermediate.dense", *output = "output.dense", *output_norm = "output.LayerNorm";
};

// The defaults are RoBERTa-base's. Without token types there are no embeddings of them.
struct EncoderOptions : TextShape {
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t intermediate_size = 3072;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;     // standard deviation of the initial weights
  bool drops_attention_output = true;  // whether there is a dropout behind attention's output
  bool sinusoidal_positions = false;   // positions begin as sines and cosines, and learn as others do
  // <s> and </s> of its tokenizer, which a config.json mentions; empty: it does not.
  std::optional<int64_t> begin_id = 0, end_id = 2;
  EncoderNames names = {};

  EncoderOptions With(const TextShape& shape) const {
    EncoderOptions options = *this;
    static_cast<TextShape&>(options) = shape;
    return options;
  }
};

// The sum of two or three embeddings, normalised. In training steps, all but the look-ups is done by the device's
// kernels, as in a layer.
class BertEmbeddingsImpl : public torch::nn::Module, public TextKernelUser {
 public:
  explicit BertEmbeddingsImpl(const EncoderOptions& options);
  ResidualPair forward(const Sequences& sequences);  // S×H

  Embedding word_embeddings{nullptr}, position_embeddings{nullptr}, token_type_embeddings{nullptr};

 private:
  LayerNorm norm_{nullptr};
  double dropout_;
};
TORCH_MODULE(BertEmbeddings);

// Attention, then two dense layers; the result of each is added to its input and then normalised. In training steps,
// all between the products is done by the device's kernels, if there are any for the tensors. Results then have the
// type of products.
class BertLayerImpl : public torch::nn::Module, public HalfWeightUser {
 public:
  explicit BertLayerImpl(const EncoderOptions& options);
  // One of the two is the input of products, the other is what their result is added to. If `rows` is defined (int64,
  // R, tokens in the list), the result is that of these tokens, R×H: the others only take part in attention.
  ResidualPair forward(const ResidualPair& x_SH, const Sequences& sequences, const at::Tensor& rows);

  void UseHalfWeights(HalfWeights& copies) override { half_weights_ = copies.CopyOf(WeightsOfThree()); }

 private:
  // Those of query, key and value.
  std::vector<at::Tensor> WeightsOfThree() const { return {query_->weight, key_->weight, value_->weight}; }
  // Returns query, key and value, S×H: with kernels, of one product.
  std::array<at::Tensor, 3> Products(const at::Tensor& x_SH);

  int64_t heads_;
  double dropout_, attention_dropout_, attention_output_dropout_;
  Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, attention_output_{nullptr};
  Linear intermediate_{nullptr}, output_{nullptr};
  LayerNorm attention_norm_{nullptr}, output_norm_{nullptr};
  HalfWeight half_weights_;  // of the three
};
TORCH_MODULE(BertLayer);

// A model with the encoder as its part `name`. Its subclasses add their heads.
class BertEncoder : public TextModel {
 public:
  at::Tensor Encode(const Sequences& sequences, const at::Tensor& rows = {}) override;

 protected:
  // Draws the encoder's initial weights from torch's default generator: normal, but biases and the rows of padding are
  // 0.
  BertEncoder(const char* name, const EncoderOptions& options);

  // Draws the matrices of a part in the same way.
  void DrawWeights(torch::nn::Module& part) const;

  const EncoderOptions& options() const { return options_; }
  const at::Tensor& words_VH() const { return embeddings_->word_embeddings->weight; }

  // Returns the cost of `tokens` tokens in sequences of `length`, of which the encoder's output is that of `rows`,
  // without a head.
  ForwardCost EncoderCost(int64_t tokens, int64_t length, int64_t rows) const;

 private:
  const EncoderOptions options_;
  BertEmbeddings embeddings_{nullptr};
  std::vector<BertLayer> layers_;
};

// Returns all rows of x if `rows` is undefined.
inline at::Tensor RowsOf(const at::Tensor& x_SH, const at::Tensor& rows) {
  return rows.defined() ? x_SH.index_select(0, rows) : x_SH;
}

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
