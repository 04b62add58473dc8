// A family of models with BERT's encoder as a table: BERT, DistilBERT, RoBERTa, and those that share RoBERTa's. Reads
// and writes their config.json.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/bert_encoder.h"
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
  std::string classes;  // as in TextFamily
  const char* backbone;
  EncoderOptions defaults;  // of a config.json in which they are missing
  EncoderFields fields = {};
  // Positions count from 0, whatever the tokens are; else from pad_token_id + 1, and tokens alone.
  bool counts_padding = true;
  WordHeadNames words;
  const char* decoder;  // transformers' name for it, which has a bias of its own unless it is the head
  ClassifierForm classifier;
  std::vector<Head> heads;
  // The dropout of a head that classifies sequences, if transformers has one of its own for it, which a config.json
  // then always says. Empty: that of the encoder unless it is said, also of a head that classifies tokens.
  std::optional<double> classifier_dropout = {};
  const char* more_fields = "{}";                              // Family::config_fields beyond BERT's
  std::vector<std::string> of_no_model = {};                   // as in TransformersNames
  std::vector<std::pair<std::string, EncoderOptions>> shapes;  // published ones: "base"

  std::string word_weights() const { return std::string(backbone) + ".embeddings.word_embeddings.weight"; }
};

// Returns the options in another size, with heads of 64 features and an inner layer of four times the width.
EncoderOptions Sized(EncoderOptions options, int64_t hidden_size, int64_t layers);

// Returns the family of `kind`, which must not end before it, with the names that transformers has. `fits` is as in
// Model.
Family FamilyOfKind(const BertKind& kind, const std::function<bool(const WeightShapes&)>& fits);

// For families of this kind and others: the flags that they take, and what all of a shape are called for people: "BERT
// of 12 layers, 768 wide, with 12 heads, for text".
inline const std::vector<std::string> kTextOptions = {"model_config", "dropout", "attention_dropout",
                                                      "classifier_dropout", "activation_checkpointing"};
std::string DescriptionOf(const std::string& family, int64_t layers, int64_t hidden_size, int64_t heads);

// How the names of a family in transformers differ from those here.
struct TransformersNames {
  std::string backbone;  // "bert.": what weights of an encoder alone leave out
  // The word embedding, the module of the decoder that shares it, and that with its bias.
  std::string words, decoder, head;
  std::vector<std::string> of_no_model;  // parts of names that no model of the family has, beside those of other tasks
};

// Gives a family with heads these names. Weights may also be from the time when LayerNorm's were gamma and beta, and
// have the decoder as a weight of its own, which stays one unless it is the word embedding.
void UseTransformersNames(const TransformersNames& names, Family& family);

// Return whether weights have an encoder called `backbone`, in any wrapper, or one without a name, whose layers' names
// begin with `layers`, also in DataParallel's.
bool HaveEncoder(const WeightShapes& weights, const std::string& backbone);
bool HaveBareEncoder(const WeightShapes& weights, const std::string& layers);

}  // namespace dtrain::models
