// RoBERTa with a head: Liu et al. 2019 (arXiv:1907.11692). Parameter names and logits are those of transformers'
// classes of the same names, except that the masked-LM decoder has no names of its own: its weight is the word
// embedding and its bias is lm_head.bias. Letters in names: N sequences, H hidden features, R chosen tokens, V words.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/bert_encoder.h"

namespace dtrain::models {

// Guesses words.
class RobertaForMaskedLM : public BertEncoder, public HalfWeightUser {
 public:
  // Draws initial weights from torch's default generator: normal, but biases and the rows of padding are 0.
  explicit RobertaForMaskedLM(const EncoderOptions& options);

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

// Classifies sequences, or gives each a number (one output), by its first token, <s>.
class RobertaForSequenceClassification : public BertEncoder {
 public:
  // `classifier_dropout` is applied before both layers of the head. Draws initial weights as RobertaForMaskedLM does.
  RobertaForSequenceClassification(const EncoderOptions& options, int64_t outputs, double classifier_dropout);

  at::Tensor Classify(const at::Tensor& hidden_RH) override;
  int64_t outputs() const override { return out_proj_->weight.size(0); }
  ForwardCost Cost(int64_t tokens, int64_t length, int64_t rows) const override;

 private:
  double classifier_dropout_;
  Linear dense_{nullptr}, out_proj_{nullptr};
};

// Returns the shape of roberta_tiny, roberta_base and roberta_large, and empty for other names.
std::optional<EncoderOptions> RobertaNamed(const std::string& name);

// Reads a config.json with the fields of the family. Throws std::invalid_argument that names what is out of range.
// Missing keys have the defaults of transformers.
EncoderOptions RobertaFromJson(const nlohmann::json& config);

// Returns the config.json that transformers' RobertaForMaskedLM reads back as this model; with a classifier, its
// RobertaForSequenceClassification.
nlohmann::ordered_json ToJson(const EncoderOptions& options, const ClassifierOptions* classifier = nullptr);

}  // namespace dtrain::models
