#include "trainer/weights/roberta_model.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/shallow_json.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {
namespace {

constexpr char kModel[] = "roberta";  // of any shape
constexpr char kWeightsConfig[] = "the weights' config.json";

// Returns what `understand` finds in a config.json. `source` is the origin of the text, for messages.
template <typename Result>
Result Understood(const std::string& text, const std::string& source, Result (*understand)(const nlohmann::json&)) {
  try {
    const nlohmann::json config = ParseShallow(text);
    RequireKnownConfig(config, source, kModel);
    return understand(config);
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(source + " is not JSON: " + error.what(), "name a Hugging Face config.json");
  } catch (const std::invalid_argument& error) {
    throw UsageError(source + ": " + error.what(), "name the config.json of a RoBERTa");
  }
}

std::string ReadConfigFile(const std::string& path) {
  std::error_code unreadable;  // for example, a link to itself
  if (!std::filesystem::is_regular_file(path, unreadable)) {
    throw UsageError("--model_config=" + path + " is not a file", "name a Hugging Face config.json");
  }
  return checkpoint::ReadTextFile(path, kMostConfigBytes);
}

// Returns the rows of the matrix whose name ends like this in either naming, or 0 if there is none.
int64_t RowsOf(const WeightsOutline& weights, std::string_view hugging_face, std::string_view fairseq) {
  for (const auto& [name, shape] : weights.shapes) {
    if ((name.ends_with(hugging_face) || name.ends_with(fairseq)) && shape.size() == 2) return shape[0];
  }
  return 0;
}

models::RobertaOptions ShapeOf(const config::ModelConfig& model, const WeightsOutline& weights) {
  if (!model.config_file.empty()) {
    return Understood(ReadConfigFile(model.config_file), model.config_file, &models::RobertaFromJson);
  }
  if (const auto named = models::RobertaNamed(model.name)) return *named;
  if (!weights.model_config.empty()) {
    return Understood(weights.model_config, kWeightsConfig, &models::RobertaFromJson);
  }
  throw UsageError("--model=" + model.name + " has no shape of its own",
                   "name a Hugging Face config.json with --model_config, or a folder that has one with --init_weights");
}

void TakePositions(const WeightsOutline& weights, models::RobertaOptions& options) {
  const int64_t positions = RowsOf(weights, "position_embeddings.weight", "embed_positions.weight");
  if (positions > options.padding_id + 1) options.max_positions = positions;
}

// An exported model says with which dropout it was trained, so that training it on elsewhere begins with that.
void TakeDropouts(const std::string& weights_config, models::RobertaOptions& options) {
  const models::RobertaOptions trained = Understood(weights_config, kWeightsConfig, &models::RobertaFromJson);
  options.dropout = trained.dropout;
  options.attention_dropout = trained.attention_dropout;
}

bool HasBlocks(const config::RunConfig& run) { return run.mode == "train" || run.mode == "eval"; }

// The head's dropout in the config.json that gives the shape; empty if it says none.
std::optional<double> HeadDropout(const config::ModelConfig& model, const WeightsOutline& weights) {
  if (!model.config_file.empty()) {
    return Understood(ReadConfigFile(model.config_file), model.config_file, &models::ClassifierDropoutFromJson);
  }
  if (weights.model_config.empty()) return std::nullopt;
  return Understood(weights.model_config, kWeightsConfig, &models::ClassifierDropoutFromJson);
}

// A config.json must be of the model: the shapes of weights show the sizes in it, and nothing else shows the rest, with
// other values of which they would compute something else, unnoticed.
void RequireAgreement(const models::RobertaOptions& options, const std::string& config_json,
                      const std::string& source) {
  if (config_json.empty()) return;
  const auto said = nlohmann::json(models::ToJson(Understood(config_json, source, &models::RobertaFromJson)));
  const auto ours = nlohmann::json(models::ToJson(options));
  for (const char* key : {"num_attention_heads", "layer_norm_eps", "pad_token_id", "vocab_size",
                          "max_position_embeddings", "type_vocab_size"}) {
    if (said.at(key) == ours.at(key)) continue;
    throw UsageError(source + " says " + key + " " + said.at(key).dump() + ", but the model has " + ours.at(key).dump(),
                     "--model=roberta without --model_config takes the shape that the weights come with; their sizes "
                     "must be those in the config.json beside them");
  }
}

void RequireFits(const models::RobertaOptions& options, const config::Config& config, int64_t vocabulary) {
  constexpr int64_t kSmallestVocabulary = 5;  // <s>, <pad>, </s>, <unk> and <mask>
  if (options.vocab_size < kSmallestVocabulary) {
    throw UsageError("a text model with a vocabulary of " + std::to_string(options.vocab_size) +
                         " tokens has no room for the special ones and <mask>",
                     "give --vocab_size=" + std::to_string(kSmallestVocabulary) +
                         " or more, or check the word embeddings of --init_weights");
  }
  if (vocabulary > options.vocab_size) {
    throw UsageError("the data has " + std::to_string(vocabulary) + " different tokens, but the model has " +
                         std::to_string(options.vocab_size),
                     "the model's vocabulary must be that of the data: check --model_config, --init_weights and "
                     "--vocab_size");
  }
  const int64_t asked = config.text.vocab_size;
  if (config::WasGiven(config, "vocab_size") && asked != options.vocab_size && asked != vocabulary) {
    throw UsageError("--vocab_size=" + std::to_string(asked) + " is not the size of the model's vocabulary, " +
                         std::to_string(options.vocab_size) + " tokens",
                     "leave it out: weights, config.json or tokenizer tell");
  }
  if (HasBlocks(config.run) && config.text.tokens_per_sample > options.longest_sequence()) {
    throw UsageError("--tokens_per_sample=" + std::to_string(config.text.tokens_per_sample) +
                         " is more than the number of the model's positions, " +
                         std::to_string(options.longest_sequence()),
                     "--tokens_per_sample=" + std::to_string(options.longest_sequence()) + " is the most");
  }
}

}  // namespace

WeightsOutline OutlineOf(const checkpoint::NamedTensors& weights, const std::string& model_config) {
  WeightsOutline outline{.shapes = {}, .model_config = model_config};
  for (const auto& [name, tensor] : weights) outline.shapes[name] = tensor.sizes().vec();
  return outline;
}

WeightsOutline ReadOutline(const std::string& path) {
  if (path.empty()) return {};
  const WeightsPlace place = FindWeights(path);
  WeightsHeader header = ReadWeightsHeader(place.file);
  WeightsOutline outline{.shapes = std::move(header.shapes), .model_config = header.metadata[kModelConfigKey]};
  if (!place.model_config.empty()) outline.model_config = place.model_config;
  const std::string model = models::RecognisedModel(outline.shapes);
  if (model.empty() || models::ReadsText(model)) return outline;
  throw UsageError(path + " has the weights of --model=" + model + ", which reads no text",
                   "name the weights of a RoBERTa with --init_weights");
}

models::RobertaOptions RobertaOptionsOf(const config::Config& config, int64_t vocabulary,
                                        const WeightsOutline& weights) {
  models::RobertaOptions options = ShapeOf(config.model, weights);
  const bool shape_is_whole = !config.model.config_file.empty();
  if (const int64_t words = RowsOf(weights, "word_embeddings.weight", "embed_tokens.weight")) {
    options.vocab_size = words;
    TakePositions(weights, options);
    if (const int64_t types = RowsOf(weights, "token_type_embeddings.weight", " ")) options.token_types = types;
  } else if (!shape_is_whole) {
    if (vocabulary == 0) {
      throw UsageError("the size of the vocabulary is unknown", "give --vocab_size, --model_config or --init_weights");
    }
    options.vocab_size = vocabulary;
    options.max_positions = config.text.tokens_per_sample + options.padding_id + 1;
  }
  RequireAgreement(options, weights.model_config, kWeightsConfig);
  if (shape_is_whole) RequireAgreement(options, ReadConfigFile(config.model.config_file), config.model.config_file);
  RequireFits(options, config, vocabulary);
  if (config.run.mode == "export" && !weights.model_config.empty()) TakeDropouts(weights.model_config, options);
  options.dropout = config.model.dropout.value_or(options.dropout);
  options.attention_dropout = config.model.attention_dropout.value_or(options.attention_dropout);
  options.checkpoint_activations = config.model.activation_checkpointing;
  return options;
}

std::string TakeTokensOfModel(config::Config& config) {
  const config::ModelConfig& model = config.model;
  const bool tells_shape = !model.config_file.empty() || !model.init_weights.empty();
  if (!HasBlocks(config.run) || !tells_shape || !models::ReadsText(model.name)) return "";
  if (config::WasGiven(config, "tokens_per_sample")) return "";
  const WeightsOutline weights = ReadOutline(model.init_weights);
  models::RobertaOptions options = ShapeOf(model, weights);
  TakePositions(weights, options);
  if (config.text.tokens_per_sample <= options.longest_sequence()) return "";
  config.text.tokens_per_sample = options.longest_sequence();
  return "--tokens_per_sample=" + std::to_string(config.text.tokens_per_sample) +
         ", as many as the model has positions";
}

std::string ModelConfigOf(const config::Config& config, int64_t vocabulary) {
  return models::ToJson(RobertaOptionsOf(config, vocabulary, ReadOutline(config.model.init_weights))).dump();
}

int64_t BenchVocabulary(const config::Config& config) {
  constexpr int64_t kPublishedVocabulary = 50265;
  if (config.text.vocab_size > 0) return config.text.vocab_size;
  return config.model.name == "roberta" ? 0 : kPublishedVocabulary;
}

SequenceClassifier SequenceClassifierOf(const config::Config& config, int64_t vocabulary, const WeightsOutline& weights,
                                        std::vector<std::string> labels, bool regression) {
  SequenceClassifier model{.encoder = RobertaOptionsOf(config, vocabulary, weights),
                           .head = {.labels = std::move(labels), .regression = regression}};
  if (!config.model.dropout) model.head.dropout = HeadDropout(config.model, weights);
  return model;
}

std::optional<models::ClassifierOptions> ClassifierIn(const WeightsOutline& weights) {
  const int64_t outputs = models::ClassificationHeadOutputs(weights.shapes);
  if (outputs == 0) return std::nullopt;
  if (!weights.model_config.empty()) {
    const auto said = Understood(weights.model_config, kWeightsConfig, &models::ClassifierFromJson);
    if (said && said->outputs() == outputs) return said;
  }
  return models::ClassifierOptions{.labels = models::NumberedLabels(outputs), .regression = outputs == 1};
}

std::shared_ptr<models::RobertaForSequenceClassification> MakeSequenceClassifier(const SequenceClassifier& options,
                                                                                 int64_t seed, at::Device device) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  auto model = std::make_shared<models::RobertaForSequenceClassification>(options.encoder, options.head.outputs(),
                                                                          options.head.dropout_with(options.encoder));
  model->to(device);
  return model;
}

std::shared_ptr<models::RobertaForMaskedLM> MakeRoberta(const models::RobertaOptions& options, int64_t seed,
                                                        at::Device device) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  auto model = std::make_shared<models::RobertaForMaskedLM>(options);
  model->to(device);
  return model;
}

}  // namespace dtrain::weights
