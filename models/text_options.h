// A model of text that can be made, whatever its family: what its data, its weights and its training must know of its
// shape, and its head. Both go into the config.json that transformers reads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::models {

class TextModel;

// The defaults are RoBERTa-base's.
struct TextShape {
  int64_t vocab_size = 50265;
  int64_t hidden_size = 768;
  int64_t padding_id = 1;
  std::optional<int64_t> unlearned_word = {};  // the one whose embedding has no gradient; empty: padding
  // The position of the first token of a sequence. 0: that of each token is its place, as in BERT; else padding does
  // not count, and has the position before it, as in RoBERTa.
  int64_t first_position = 2;
  int64_t longest_sequence = 512;
  int64_t token_types = 1;         // of which the texts of a pair may be; less than 2: they are not told apart
  double embedding_dropout = 0.1;  // where a family tells it apart from `dropout`
  double dropout = 0.1;
  double attention_dropout = 0.1;
  bool ties_decoder = true;             // whether a config.json says that the decoder of words is their embedding
  bool checkpoint_activations = false;  // compute a layer's activations again in the backward pass

  // Returns the rows of the position embeddings.
  int64_t positions() const { return first_position + longest_sequence; }
};

enum class HeadKind {
  kWords,    // guesses words
  kClasses,  // one of several classes for each sequence
  kSeveral,  // any number of several classes: each output is a logit of its own
  kNumber,   // one number for each sequence
  kTokens,   // one of several classes for each token
  kNone,     // there is no head: the encoder alone is the model
};

// What else tells kinds of heads apart.
enum class Labelled { kNothing, kSequences, kTokens };
struct HeadFacts {
  HeadKind kind;
  Labelled labelled;                     // what has an output for each label
  const char* ending;                    // of the names of transformers' classes
  const char* problem_type;              // in a config.json; null: that has none
  const char* not_in_fairseq = nullptr;  // how such a model is unlike fairseq's; null: fairseq has such models
};
const HeadFacts& FactsOf(HeadKind kind);

struct TextHead {
  HeadKind kind = HeadKind::kWords;
  std::vector<std::string> labels = {};  // of what it labels: the classes in order, different; of a number one name
  std::optional<double> dropout = {};    // in the head; empty: that of the encoder

  bool labels_of(Labelled what) const { return FactsOf(kind).labelled == what; }
  int64_t outputs() const { return static_cast<int64_t>(labels.size()); }
  double dropout_with(double of_encoder) const { return dropout.value_or(of_encoder); }
};

// A family makes it of a config.json. The shape may be changed before the model is made.
struct TextOptions {
  TextShape shape;
  // Make the model, with weights drawn from torch's default generator, and its config.json.
  std::function<std::shared_ptr<TextModel>(const TextShape&, const TextHead&)> make;
  std::function<nlohmann::ordered_json(const TextShape&, const TextHead&)> to_json;

  std::shared_ptr<TextModel> Make(const TextHead& head = {}) const { return make(shape, head); }
  nlohmann::ordered_json ToJson(const TextHead& head = {}) const;
};

// Removes the dropouts, also a classifier's: what is left is the shape.
void EraseDropouts(nlohmann::json& config);

// Returns the names that transformers gives to labels without names: LABEL_0, LABEL_1, …
std::vector<std::string> NumberedLabels(int64_t count);

// Reads the head of a config.json, or returns empty if its architectures name none that labels something. Missing keys
// have the defaults of transformers: two labels, and a number if there is one. Throws std::invalid_argument that names
// what is not valid (labels not numbered from 0, equal labels, another num_labels) or another problem_type. `classes`
// is TextFamily::classes.
std::optional<TextHead> HeadFromJson(const nlohmann::json& config, const std::string& classes);

// The field of a config.json with the dropout of a head, and DistilBERT's for that which classifies sequences.
inline constexpr char kClassifierDropout[] = "classifier_dropout", kSequenceDropout[] = "seq_classif_dropout";

// Returns the dropout of a head in a config.json, which may have one for another head as well; empty if it has none for
// this one. Throws std::invalid_argument if it is no probability.
std::optional<double> ClassifierDropoutFromJson(const nlohmann::json& config, HeadKind head);

// Adds a head to a config.json.
void AddTo(nlohmann::ordered_json& config, const std::string& classes, const TextHead& head);

// For the readers of a config.json: they throw std::invalid_argument if `config` is no object, or if the value of a key
// is not of its kind or out of its range, and leave `value` as it is if the key is missing.
void RequireObject(const nlohmann::json& config);
void ReadWhole(const nlohmann::json& config, const char* key, int64_t minimum, int64_t maximum, int64_t& value);
void ReadNumber(const nlohmann::json& config, const char* key, double maximum, double& value);  // 0 to `maximum`
// Throws std::invalid_argument: "KEY is VALUE, expected …".
[[noreturn]] void RefuseValue(const std::string& key, const nlohmann::json& value, const std::string& expected);

}  // namespace dtrain::models
