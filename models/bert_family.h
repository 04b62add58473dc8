// A family of models with BERT's encoder as a table: BERT, DistilBERT, RoBERTa, and those that share RoBERTa's. Reads
// and writes their config.json.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/bert_heads.h"
#include "models/family.h"

namespace dtrain::models {

// Fields of a config.json that not all families call alike. The defaults are BERT's.
struct EncoderFields {
  const char *hidden_size = "hidden_size", *layers = "num_hidden_layers", *heads = "num_attention_heads";
  const char *intermediate_size = "intermediate_size", *activation = "hidden_act";
  const char *dropout = "hidden_dropout_prob", *attention_dropout = "attention_probs_dropout_prob";
  const char* layer_norm_epsilon = "layer_norm_eps";  // null: there is none, as for the number of token types
  const char* classifier_dropout = kClassifierDropout;
};

struct BertKind {
  std::string name;     // for people
  std::string model;    // what --model accepts for any shape, and with which the names of `shapes` begin
  std::string type;     // model_type of a config.json
  std::string classes;  // transformers' classes are this and ForMaskedLM, ForSequenceClassification …
  std::string tokenizer;
  const char* backbone;
  EncoderOptions defaults;  // of a config.json in which they are missing
  EncoderFields fields = {};
  // Positions count from 0, whatever the tokens are; else from pad_token_id + 1, and tokens alone.
  bool counts_padding = true;
  WordHeadNames words;
  ClassifierForm classifier;
  // The dropout of a head that classifies sequences, if transformers has one of its own for it, which a config.json
  // then always says. Empty: that of the encoder unless it is said, also of a head that classifies tokens.
  std::optional<double> classifier_dropout = {};
  const char* more_fields = "{}";                              // Family::config_fields beyond BERT's
  std::vector<std::pair<std::string, EncoderOptions>> shapes;  // published ones: "base"

  std::string word_weights() const { return std::string(backbone) + ".embeddings.word_embeddings.weight"; }
};

// Reads a config.json with the fields of the family. Throws std::invalid_argument that names what is out of range.
EncoderOptions EncoderFromJson(const BertKind& kind, const nlohmann::json& config);

// Returns the config.json that transformers' …ForMaskedLM reads back as this model; with a classifier, its
// …ForSequenceClassification or …ForTokenClassification.
nlohmann::ordered_json EncoderToJson(const BertKind& kind, const EncoderOptions& options,
                                     const ClassifierOptions* classifier = nullptr);

// Returns the family of `kind`, which must not end before it. The caller adds the heads and the names in other
// programs. `fits` is as in Model.
Family FamilyOfKind(const BertKind& kind, const std::function<bool(const WeightShapes&)>& fits);

// Describes a model for people: "BERT of 12 layers, 768 wide, with 12 heads, for text".
std::string DescriptionOf(const std::string& family, int64_t layers, int64_t hidden_size, int64_t heads);

// Gives the family the names that transformers has, a classifier whose last layer is `classifier`, and no others.
void UseTransformersNames(const TransformersNames& names, Family& family);

// Return whether weights have an encoder called `backbone`, in any wrapper, or one without a name, whose layers' names
// begin with `layers`.
bool HaveEncoder(const WeightShapes& weights, const std::string& backbone);
bool HaveBareEncoder(const WeightShapes& weights, const std::string& layers);

}  // namespace dtrain::models
