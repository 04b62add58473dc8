// The shape of a RoBERTa, and its conversion from and to Hugging Face's config.json. This file needs no torch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::models {

struct RobertaOptions {
  int64_t vocab_size = 50265;
  int64_t hidden_size = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t intermediate_size = 3072;
  int64_t max_positions = 514;  // rows of the position embeddings: the longest sequence + padding_id + 1
  int64_t token_types = 1;      // rows of the token-type embeddings; only the first is used
  int64_t padding_id = 1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;  // standard deviation of the initial weights
  double dropout = 0.1;
  double attention_dropout = 0.1;
  bool checkpoint_activations = false;  // compute a layer's activations again in the backward pass

  int64_t longest_sequence() const { return max_positions - padding_id - 1; }
};

// Returns roberta_tiny, roberta_base and roberta_large.
const std::vector<std::string>& RobertaNames();

// Returns the shape of a name in RobertaNames(), and empty for other names.
std::optional<RobertaOptions> RobertaNamed(const std::string& name);

// The fields of a config.json, as Family::config_fields.
extern const char* const kRobertaConfigFields;

// Reads a config.json with these fields. Throws std::invalid_argument that names what is out of range. Missing keys
// have the defaults of transformers.
RobertaOptions RobertaFromJson(const nlohmann::json& config);

// Returns the config.json that transformers' RobertaForMaskedLM reads back as this model.
nlohmann::ordered_json ToJson(const RobertaOptions& options);

// Removes the dropouts, also a classifier's: what is left is the shape.
void EraseDropouts(nlohmann::json& config);

// What a classifier of sequences has beside its encoder.
struct ClassifierOptions {
  std::vector<std::string> labels;     // the classes in order, different; of a regression one name
  bool regression = false;             // one output, a number
  std::optional<double> dropout = {};  // in the head; empty: that of the encoder

  int64_t outputs() const { return static_cast<int64_t>(labels.size()); }
  double dropout_with(const RobertaOptions& encoder) const { return dropout.value_or(encoder.dropout); }
};

// Returns the names that transformers gives to labels without names: LABEL_0, LABEL_1, …
std::vector<std::string> NumberedLabels(int64_t count);

// Reads the classifier of a config.json, or returns empty if its architectures do not name
// RobertaForSequenceClassification. Missing keys have the defaults of transformers: two labels, and a regression if
// there is one. Throws std::invalid_argument that names what is not valid (labels not numbered from 0, equal labels,
// another num_labels) or not supported (another problem_type).
std::optional<ClassifierOptions> ClassifierFromJson(const nlohmann::json& config);

// Returns the classifier_dropout of a config.json of any task; empty if it has none. Throws std::invalid_argument if it
// is no probability.
std::optional<double> ClassifierDropoutFromJson(const nlohmann::json& config);

// Returns the config.json that transformers' RobertaForSequenceClassification reads back as this model.
nlohmann::ordered_json ToJson(const RobertaOptions& options, const ClassifierOptions& classifier);

}  // namespace dtrain::models
