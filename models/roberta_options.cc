// Missing keys have the values that transformers' RobertaConfig gives them.
#include "models/roberta_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

namespace dtrain::models {
namespace {

const std::vector<std::pair<std::string, RobertaOptions>>& Table() {
  static const std::vector<std::pair<std::string, RobertaOptions>> table = {
      {"roberta_tiny", {.hidden_size = 128, .layers = 2, .heads = 2, .intermediate_size = 512}},
      {"roberta_base", {}},
      {"roberta_large", {.hidden_size = 1024, .layers = 24, .heads = 16, .intermediate_size = 4096}},
  };
  return table;
}

[[noreturn]] void Refuse(const std::string& key, const nlohmann::json& value, const std::string& expected) {
  constexpr size_t kShown = 60;
  throw std::invalid_argument(key + " is " +
                              value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, kShown) +
                              ", expected " + expected);
}

void Whole(const nlohmann::json& config, const char* key, int64_t minimum, int64_t maximum, int64_t& value) {
  const auto found = config.find(key);
  if (found == config.end()) return;
  const std::string expected = "a whole number, " + std::to_string(minimum) + " to " + std::to_string(maximum);
  if (!found->is_number_integer()) Refuse(key, *found, expected);
  value = found->get<int64_t>();
  if (value < minimum || value > maximum) Refuse(key, *found, expected);
}

void Number(const nlohmann::json& config, const char* key, double maximum, double& value) {
  const auto found = config.find(key);
  if (found == config.end()) return;
  if (found->is_number()) value = found->get<double>();
  if (!found->is_number() || !(value >= 0 && value <= maximum)) {
    Refuse(key, *found, "a number, 0 to " + nlohmann::json(maximum).dump());
  }
}

constexpr char kClassifier[] = "RobertaForSequenceClassification";
constexpr char kRegression[] = "regression", kClassification[] = "single_label_classification";

// The value of a key, or null if it is missing.
const nlohmann::json& ValueOf(const nlohmann::json& config, const char* key) {
  static const nlohmann::json kNull;
  const auto found = config.find(key);
  return found == config.end() ? kNull : *found;
}

// {"0": "cat", "1": "dog"} → cat, dog.
std::vector<std::string> LabelsOf(const nlohmann::json& id2label) {
  if (!id2label.is_object() || id2label.empty()) Refuse("id2label", id2label, "an object with a name for each label");
  std::vector<std::string> labels;
  for (size_t label = 0; label < id2label.size(); ++label) {
    const nlohmann::json& name = ValueOf(id2label, std::to_string(label).c_str());
    if (!name.is_string() || name.get_ref<const std::string&>().empty()) {
      Refuse("id2label", id2label,
             "names for the labels 0 to " + std::to_string(id2label.size() - 1) + ": that of " + std::to_string(label) +
                 " is missing or no text");
    }
    labels.push_back(name.get<std::string>());
  }
  if (std::set<std::string>(labels.begin(), labels.end()).size() != labels.size()) {
    Refuse("id2label", id2label, "a different name for each label");
  }
  return labels;
}

}  // namespace

// The functions below read those of the second paragraph. The last ones change nothing here.
const char* const kRobertaConfigFields = R"({
  "model_type": ["roberta"], "hidden_act": ["gelu"], "position_embedding_type": ["absolute"],
  "tie_word_embeddings": [true],

  "vocab_size": null, "hidden_size": null, "num_hidden_layers": null, "num_attention_heads": null,
  "intermediate_size": null, "pad_token_id": null, "max_position_embeddings": null, "type_vocab_size": null,
  "layer_norm_eps": null, "initializer_range": null, "hidden_dropout_prob": null, "attention_probs_dropout_prob": null,
  "classifier_dropout": null, "problem_type": null,

  "use_cache": null, "gradient_checkpointing": null, "output_past": null
})";

const std::vector<std::string>& RobertaNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, options] : Table()) all.push_back(name);
    return all;
  }();
  return names;
}

std::optional<RobertaOptions> RobertaNamed(const std::string& name) {
  for (const auto& [known, options] : Table()) {
    if (known == name) return options;
  }
  return std::nullopt;
}

RobertaOptions RobertaFromJson(const nlohmann::json& config) {
  if (!config.is_object()) throw std::invalid_argument("it is not a JSON object");
  constexpr int64_t kMost = 1 << 24;
  RobertaOptions options;
  options.max_positions = 512;  // these are RobertaConfig's own; published models say 514, 1 and 1e-5
  options.token_types = 2;
  options.layer_norm_epsilon = 1e-12;
  Whole(config, "vocab_size", 5, kMost, options.vocab_size);
  Whole(config, "hidden_size", 1, kMost, options.hidden_size);
  Whole(config, "num_hidden_layers", 1, 10'000, options.layers);
  Whole(config, "num_attention_heads", 1, kMost, options.heads);
  Whole(config, "intermediate_size", 1, kMost, options.intermediate_size);
  Whole(config, "pad_token_id", 0, options.vocab_size - 1, options.padding_id);
  Whole(config, "max_position_embeddings", options.padding_id + 2, kMost, options.max_positions);
  Whole(config, "type_vocab_size", 1, kMost, options.token_types);
  Number(config, "layer_norm_eps", 1, options.layer_norm_epsilon);
  Number(config, "initializer_range", 10, options.initializer_range);
  Number(config, "hidden_dropout_prob", 1, options.dropout);
  Number(config, "attention_probs_dropout_prob", 1, options.attention_dropout);
  if (options.hidden_size % options.heads != 0) {
    Refuse("num_attention_heads", options.heads, "a divisor of hidden_size, " + std::to_string(options.hidden_size));
  }
  return options;
}

void EraseDropouts(nlohmann::json& config) {
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"}) {
    config.erase(key);
  }
}

nlohmann::ordered_json ToJson(const RobertaOptions& options) {
  return {{"architectures", {"RobertaForMaskedLM"}},
          {"model_type", "roberta"},
          {"vocab_size", options.vocab_size},
          {"hidden_size", options.hidden_size},
          {"num_hidden_layers", options.layers},
          {"num_attention_heads", options.heads},
          {"intermediate_size", options.intermediate_size},
          {"hidden_act", "gelu"},
          {"hidden_dropout_prob", options.dropout},
          {"attention_probs_dropout_prob", options.attention_dropout},
          {"max_position_embeddings", options.max_positions},
          {"position_embedding_type", "absolute"},
          {"type_vocab_size", options.token_types},
          {"initializer_range", options.initializer_range},
          {"layer_norm_eps", options.layer_norm_epsilon},
          {"bos_token_id", 0},
          {"pad_token_id", options.padding_id},
          {"eos_token_id", 2},
          {"tie_word_embeddings", true},
          {"torch_dtype", "float32"}};
}

std::vector<std::string> NumberedLabels(int64_t count) {
  std::vector<std::string> labels;
  for (int64_t label = 0; label < count; ++label) labels.push_back("LABEL_" + std::to_string(label));
  return labels;
}

std::optional<ClassifierOptions> ClassifierFromJson(const nlohmann::json& config) {
  if (!config.is_object()) throw std::invalid_argument("it is not a JSON object");
  const nlohmann::json& architectures = ValueOf(config, "architectures");
  if (std::find(architectures.begin(), architectures.end(), kClassifier) == architectures.end()) return std::nullopt;

  constexpr int64_t kMostLabels = 1 << 20;
  const nlohmann::json &id2label = ValueOf(config, "id2label"), &problem = ValueOf(config, "problem_type");
  int64_t count = 2;
  if (!id2label.is_null()) count = static_cast<int64_t>(id2label.size());
  ClassifierOptions classifier;
  Whole(config, "num_labels", 1, kMostLabels, count);
  classifier.labels = id2label.is_null() ? NumberedLabels(count) : LabelsOf(id2label);
  if (count != classifier.outputs()) {
    Refuse("num_labels", count, "that of id2label, " + std::to_string(classifier.outputs()));
  }
  if (!problem.is_null() && problem != kRegression && problem != kClassification) {
    Refuse("problem_type", problem, std::string(kClassification) + " or " + kRegression);
  }
  classifier.regression = problem.is_null() ? count == 1 : problem == kRegression;
  if (classifier.regression && count != 1) Refuse("num_labels", count, "1 for a regression");
  classifier.dropout = ClassifierDropoutFromJson(config);
  return classifier;
}

std::optional<double> ClassifierDropoutFromJson(const nlohmann::json& config) {
  if (!config.is_object()) throw std::invalid_argument("it is not a JSON object");
  if (ValueOf(config, "classifier_dropout").is_null()) return std::nullopt;
  double dropout = 0;
  Number(config, "classifier_dropout", 1, dropout);
  return dropout;
}

nlohmann::ordered_json ToJson(const RobertaOptions& options, const ClassifierOptions& classifier) {
  nlohmann::ordered_json json = ToJson(options), id2label, label2id;
  for (size_t label = 0; label < classifier.labels.size(); ++label) {
    id2label[std::to_string(label)] = classifier.labels[label];
    label2id[classifier.labels[label]] = label;
  }
  json["architectures"] = {kClassifier};
  json["num_labels"] = classifier.outputs();
  json["id2label"] = id2label;
  json["label2id"] = label2id;
  json["problem_type"] = classifier.regression ? kRegression : kClassification;
  json["classifier_dropout"] = nullptr;
  if (classifier.dropout) json["classifier_dropout"] = *classifier.dropout;
  return json;
}

}  // namespace dtrain::models
