// RoBERTa with a head: Liu et al. 2019 (arXiv:1907.11692). Parameter names and logits are those of transformers'
// classes of the same names, except that the masked-LM decoder has no names of its own: its weight is the word
// embedding and its bias is lm_head.bias.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/bert_heads.h"

namespace dtrain::models {

// Guesses words.
class RobertaForMaskedLM : public BertForMaskedLM {
 public:
  explicit RobertaForMaskedLM(const EncoderOptions& options);
};

// Classifies sequences, or gives each a number (one output), by its first token, <s>.
class RobertaForSequenceClassification : public BertClassifier {
 public:
  // `classifier_dropout` is applied before both layers of the head.
  RobertaForSequenceClassification(const EncoderOptions& options, int64_t outputs, double classifier_dropout);
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
