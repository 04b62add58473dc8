// The post-LN encoder of BERT: Devlin et al. 2018 (arXiv:1810.04805), which RoBERTa has, too. Parameter names and
// results are those of transformers' models without their poolers. Letters in names: S tokens, R chosen ones of them, H
// hidden features.
#pragma once

#include <torch/nn/module.h>

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

// The defaults are RoBERTa-base's.
struct EncoderOptions {
  int64_t vocab_size = 50265;
  int64_t hidden_size = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t intermediate_size = 3072;
  int64_t max_positions = 514;  // rows of the position embeddings: first_position + the longest sequence
  int64_t token_types = 1;      // rows of the token-type embeddings; 0: there are none
  int64_t padding_id = 1;
  int64_t first_position = 2;  // TextShape
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;  // standard deviation of the initial weights
  double dropout = 0.1;
  double attention_dropout = 0.1;
  bool checkpoint_activations = false;  // TextShape
  // <s> and </s> of its tokenizer, which a config.json mentions; empty: it does not.
  std::optional<int64_t> begin_id = 0, end_id = 2;
  EncoderNames names = {};

  TextShape shape() const;
  EncoderOptions With(const TextShape& shape) const;
};

// The sum of two or three embeddings, normalised. In training steps, all but the look-ups is done by the device's
// kernels, as in a layer.
class BertEmbeddingsImpl : public torch::nn::Module {
 public:
  explicit BertEmbeddingsImpl(const EncoderOptions& options);
  ResidualPair forward(const Sequences& sequences);  // S×H

  // As BertLayerImpl::UseKernels.
  void UseKernels(const TextKernels& kernels) { kernels_ = &kernels; }

  Embedding word_embeddings{nullptr}, position_embeddings{nullptr}, token_type_embeddings{nullptr};

 private:
  LayerNorm norm_{nullptr};
  double dropout_;
  const TextKernels* kernels_ = nullptr;
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

  // From now on, training steps use these kernels, which must be of the parameters' device and outlive this object.
  void UseKernels(const TextKernels& kernels) { kernels_ = &kernels; }

  void UseHalfWeights(HalfWeights& copies) override { half_weights_ = copies.CopyOf(WeightsOfThree()); }

 private:
  // Those of query, key and value.
  std::vector<at::Tensor> WeightsOfThree() const { return {query_->weight, key_->weight, value_->weight}; }
  bool UsesKernels(const at::Tensor& x_SH) const;
  ResidualPair ForwardWithAten(const at::Tensor& x_SH, const Sequences& sequences, const at::Tensor& rows);
  ResidualPair ForwardWithKernels(const ResidualPair& x_SH, const Sequences& sequences, const at::Tensor& rows);
  // Returns the layer norm of z + dropout(product's result).
  ResidualPair AddNormalised(const at::Tensor& x_SH, Linear& product, const at::Tensor& z_SH, LayerNorm& norm) const;
  at::Tensor Dropped(const at::Tensor& x) const;

  int64_t heads_;
  double dropout_, attention_dropout_;
  Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, attention_output_{nullptr};
  Linear intermediate_{nullptr}, output_{nullptr};
  LayerNorm attention_norm_{nullptr}, output_norm_{nullptr};
  const TextKernels* kernels_ = nullptr;
  HalfWeight half_weights_;  // of the three
};
TORCH_MODULE(BertLayer);

// Family::layer_of for such models.
std::optional<int64_t> LayerOfEncoder(std::string_view parameter);

// A model with the encoder as its part `name`. Its subclasses add their heads.
class BertEncoder : public TextModel {
 public:
  at::Tensor Encode(const Sequences& sequences, const at::Tensor& rows = {}) override;
  void UseKernels(const TextKernels& kernels) override;

 protected:
  // Draws the encoder's initial weights from torch's default generator: normal, but biases and the rows of padding are
  // 0.
  BertEncoder(const char* name, const EncoderOptions& options);

  // Draws the matrices of a part in the same way.
  void DrawWeights(torch::nn::Module& part) const;

  const EncoderOptions& options() const { return options_; }
  const at::Tensor& words_VH() const { return embeddings_->word_embeddings->weight; }

  // Returns the kernels for a step with rows of the encoder's output; null: it takes ATen's operations.
  const TextKernels* KernelsFor(const at::Tensor& hidden_RH) const;

  // Returns the cost of `tokens` tokens in sequences of `length`, of which the encoder's output is that of `rows`,
  // without a head.
  ForwardCost EncoderCost(int64_t tokens, int64_t length, int64_t rows) const;

 private:
  const EncoderOptions options_;
  BertEmbeddings embeddings_{nullptr};
  std::vector<BertLayer> layers_;
  const TextKernels* kernels_ = nullptr;
};

}  // namespace dtrain::models
