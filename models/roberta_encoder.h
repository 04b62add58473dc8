// RoBERTa's encoder: Liu et al. 2019 (arXiv:1907.11692), the post-LN encoder of BERT. Parameter names and results are
// those of transformers' RobertaModel without its pooler. Letters in names: N sequences, S tokens, R chosen ones of
// them, H hidden features.
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

// The sum of three embeddings, normalised. In training steps, all but the look-ups is done by the device's kernels, as
// in a layer.
class RobertaEmbeddingsImpl : public torch::nn::Module {
 public:
  explicit RobertaEmbeddingsImpl(const RobertaOptions& options);
  Forked forward(const Sequences& sequences);  // S×H

  // As RobertaLayerImpl::UseKernels.
  void UseKernels(const TextKernels& kernels) { kernels_ = &kernels; }

  Embedding word_embeddings{nullptr}, position_embeddings{nullptr}, token_type_embeddings{nullptr};

 private:
  LayerNorm norm_{nullptr};
  double dropout_;
  const TextKernels* kernels_ = nullptr;
};
TORCH_MODULE(RobertaEmbeddings);

// Attention, then two dense layers; the result of each is added to its input and then normalised. In training steps,
// all between the products is done by the device's kernels, if there are any for the tensors. Results then have the
// type of products.
class RobertaLayerImpl : public torch::nn::Module, public HalfWeightUser {
 public:
  explicit RobertaLayerImpl(const RobertaOptions& options);
  // One of the two is the input of products, the other is what their result is added to. If `rows` is defined (int64,
  // R, tokens in the list), the result is that of these tokens, R×H: the others only take part in attention.
  Forked forward(const Forked& x_SH, const Sequences& sequences, const at::Tensor& rows);

  // From now on, training steps use these kernels, which must be of the parameters' device and outlive this object.
  void UseKernels(const TextKernels& kernels) { kernels_ = &kernels; }

  void UseHalfWeights(HalfWeights& copies) override { half_weights_ = copies.CopyOf(WeightsOfThree()); }

 private:
  // Those of query, key and value.
  std::vector<at::Tensor> WeightsOfThree() const { return {query_->weight, key_->weight, value_->weight}; }
  bool UsesKernels(const at::Tensor& x_SH) const;
  Forked ForwardWithAten(const at::Tensor& x_SH, const Sequences& sequences, const at::Tensor& rows);
  Forked ForwardWithKernels(const Forked& x_SH, const Sequences& sequences, const at::Tensor& rows);
  // Returns the layer norm of z + dropout(product's result).
  Forked AddNormalised(const at::Tensor& x_SH, Linear& product, const at::Tensor& z_SH, LayerNorm& norm) const;
  at::Tensor Dropped(const at::Tensor& x) const;

  int64_t heads_;
  double dropout_, attention_dropout_;
  Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, attention_output_{nullptr};
  Linear intermediate_{nullptr}, output_{nullptr};
  LayerNorm attention_norm_{nullptr}, output_norm_{nullptr};
  const TextKernels* kernels_ = nullptr;
  HalfWeight half_weights_;  // of the three
};
TORCH_MODULE(RobertaLayer);

// A model with the encoder as its part `roberta`. Its subclasses add their heads.
class RobertaEncoder : public torch::nn::Module {
 public:
  // Returns the encoder's output for every token, S×H, or for those in `rows` (int64, R, places in the list; some may
  // occur twice) alone, R×H, which saves most of the last layer's work.
  at::Tensor Encode(const Sequences& sequences, const at::Tensor& rows = {});
  // The same for the first token of each sequence that is not a filler, <s>: N×H. Never waits for a device.
  at::Tensor EncodeFirst(const Sequences& sequences);

  // Calls RobertaLayerImpl::UseKernels of every layer, and has the same meaning for embeddings and head.
  void UseKernels(const TextKernels& kernels);

  const RobertaOptions& options() const { return options_; }

 protected:
  // Draws the encoder's initial weights from torch's default generator: normal, but biases and the rows of padding are
  // 0.
  explicit RobertaEncoder(const RobertaOptions& options);

  // Draws the matrices of a part in the same way.
  void DrawWeights(torch::nn::Module& part) const;

  const at::Tensor& words_VH() const { return embeddings_->word_embeddings->weight; }

  // Returns the kernels for a step with rows of the encoder's output; null: it takes ATen's operations.
  const TextKernels* KernelsFor(const at::Tensor& hidden_RH) const;

  // Returns the cost of `tokens` tokens in sequences of `length`, of which the encoder's output is that of `rows`,
  // without a head.
  ForwardCost EncoderCost(int64_t tokens, int64_t length, int64_t rows) const;

 private:
  RobertaOptions options_;
  RobertaEmbeddings embeddings_{nullptr};
  std::vector<RobertaLayer> layers_;
  const TextKernels* kernels_ = nullptr;
};

}  // namespace dtrain::models
