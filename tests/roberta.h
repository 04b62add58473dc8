// RoBERTas of any size, whose classes in transformers have the same names, and sequences for them.
#pragma once

#include <ATen/ATen.h>

#include "models/bert_encoder.h"

namespace dtrain::models {

struct RobertaForMaskedLM : BertForMaskedLM {
  explicit RobertaForMaskedLM(const EncoderOptions& options) : BertForMaskedLM("roberta", options, {}) {}
};

struct RobertaForSequenceClassification : BertClassifier {
  RobertaForSequenceClassification(const EncoderOptions& options, int64_t outputs, double classifier_dropout)
      : BertClassifier(
            "roberta", options,
            {.output = "classifier.out_proj", .dense = "classifier.dense", .activation = at::tanh, .drops_input = true},
            outputs, classifier_dropout) {}
};

inline EncoderOptions SmallRoberta(double dropout, int64_t width = 32) {
  return {{.vocab_size = 50,
           .hidden_size = width,
           .longest_sequence = 12,
           .dropout = dropout,
           .attention_dropout = dropout},
          /*layers=*/2,
          /*heads=*/2,
          /*intermediate_size=*/width * 3 / 2};
}

inline constexpr int64_t kPadding = 1;
inline const TextShape kRobertaShape{.padding_id = kPadding, .first_position = 2};

// Three sequences of 9, 4 and 1 tokens of 50 words, 3×9.
inline at::Tensor RobertaIds() {
  at::manual_seed(3);
  at::Tensor ids = at::randint(4, 50, {3, 9}, at::kLong);
  ids[1].slice(0, 4).fill_(kPadding);
  ids[2].slice(0, 1).fill_(kPadding);
  return ids;
}

}  // namespace dtrain::models
