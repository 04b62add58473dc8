#include "trainer/weights/text_model.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/shallow_json.h"
#include "data/storage.h"
#include "data/text/tokenizer.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/module_state.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {
namespace {

constexpr char kWeightsConfig[] = "the weights' config.json";

// Returns what `understand` finds in a config.json of the family of `model`. `source` is the origin of the text, for
// messages.
template <typename Understand>
auto Understood(const std::string& text, const std::string& source, const std::string& model,
                const Understand& understand) {
  const models::Family& family = models::FamilyOf(model);
  try {
    const nlohmann::json config = ParseShallow(text);
    RequireKnownConfig(config, source, models::FamilyOf(model).models.front().name);
    return understand(config, family.text);
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(source + WhyNotJson(error), "name a Hugging Face config.json");
  } catch (const std::invalid_argument& error) {
    throw UsageError(source + ": " + error.what(),
                     "correct it there, or name the config.json of another " + family.name);
  }
}

models::TextOptions OptionsIn(const std::string& text, const std::string& source, const std::string& model,
                              const models::WeightShapes& weights = {}) {
  return Understood(text, source, model, [&](const nlohmann::json& config, const models::TextFamily& family) {
    return family.from_json(config, weights);
  });
}

std::string ReadConfigFile(const std::string& path) {
  if (!data::IsFile(path)) {
    throw UsageError("--model_config=" + path + " is not a file", "name a Hugging Face config.json");
  }
  return InPlainJson(checkpoint::ReadTextFile(path, kMostConfigBytes));
}

models::TextOptions ShapeOf(const config::ModelConfig& model, const WeightsOutline& weights) {
  const std::string& file = model.config_file;
  if (!file.empty()) return OptionsIn(ReadConfigFile(file), file, model.name, weights.shapes);
  if (const auto& named = models::FindModel(model.name)->text) return named(weights.shapes);
  if (!weights.model_config.empty()) {
    return OptionsIn(weights.model_config, kWeightsConfig, model.name, weights.shapes);
  }
  throw UsageError("--model=" + model.name + " has no shape of its own",
                   "name a Hugging Face config.json with --model_config, or a folder that has one with --init_weights");
}

bool HasBlocks(const config::RunConfig& run) { return run.mode == "train" || run.mode == "eval"; }

// A config.json must be of the model: the shapes of weights show the sizes in it, and nothing else shows the rest, with
// other values of which they would compute something else, unnoticed.
void RequireAgreement(const models::TextOptions& options, const std::string& config_json, const std::string& source,
                      const std::string& model) {
  if (config_json.empty()) return;
  const auto said = nlohmann::json(OptionsIn(config_json, source, model).ToJson());
  const auto ours = nlohmann::json(options.ToJson());
  for (const char* key : models::FamilyOf(model).text.unseen_fields) {
    if (said.at(key) == ours.at(key)) continue;
    throw UsageError(source + " says " + key + " " + said.at(key).dump() + ", but the model has " + ours.at(key).dump(),
                     "--model=" + models::FamilyOf(model).models.front().name +
                         " without --model_config takes the shape that the weights come with; their sizes must be "
                         "those in the config.json beside them");
  }
}

// Ids of another tokenizer mean other words, mostly without being too large, so that its special tokens tell. Its kind
// does not: models of one family come with tokenizers of several. What `config_json`, if there is one, says of the
// tokens around a row counts for weights that come from elsewhere: a model that began here may not have been told them.
void RequireSpecialTokens(const data::SpecialTokens& special, const models::TextOptions& options,
                          const std::string& config_json, const config::Config& config) {
  const std::string& weights = config.model.init_weights;
  const auto said = nlohmann::json(
      (config_json.empty() ? options : OptionsIn(config_json, kWeightsConfig, config.model.name)).ToJson());
  const auto require = [&](const char* key, const char* what, int64_t id) {
    if (!said.contains(key) || said[key] == id) return;
    throw UsageError(
        "the data's tokenizer has token " + std::to_string(id) + " " + what + ", but " +
            (weights.empty() ? "the model" : weights) + " has " + said[key].dump() + " (" + key +
            " of its config.json)",
        "put the tokenizer that came with the weights beside them; or correct the config.json, if its model "
        "has learned with this one");
  };
  if (options.shape.padding_id != special.pad) require("pad_token_id", "as <pad>", special.pad);
  if (weights.empty() || config_json.empty()) return;
  const nlohmann::json described = ParseShallow(config_json);
  const auto says = [&described](const char* key) { return described.contains(key) && described[key].is_number(); };
  if (says("bos_token_id")) require("bos_token_id", "in front of a text", special.begin);
  if (says("eos_token_id")) require("eos_token_id", "behind a text", special.end);
}

// Returns the <pad> of the tokenizer that lies beside weights; `otherwise` if there is none that can be read.
int64_t PadBeside(const std::string& weights, int64_t otherwise) {
  try {
    const auto files = weights.empty() ? std::nullopt : data::FindHuggingFaceTokenizer(data::FolderAt(weights));
    return files ? data::OpenTokenizer(*files)->special().pad : otherwise;
  } catch (const DataError&) {  // said where texts need it
    return otherwise;
  }
}

void RequireFits(const models::TextShape& options, const config::Config& config, int64_t vocabulary) {
  if (vocabulary > options.vocab_size) {
    throw UsageError("the data has " + std::to_string(vocabulary) + " different tokens, but the model has " +
                         std::to_string(options.vocab_size),
                     "the model's vocabulary must be that of the data: check --model_config, --init_weights and "
                     "--vocab_size");
  }
  const int64_t asked = config.text.vocab_size;
  if (asked > 0 && config::WasGiven(config, "vocab_size") && asked != options.vocab_size && asked != vocabulary) {
    throw UsageError("--vocab_size=" + std::to_string(asked) + " is not the size of the model's vocabulary, " +
                         std::to_string(options.vocab_size) + " tokens",
                     "leave it out: weights, config.json or tokenizer tell");
  }
  if (HasBlocks(config.run) && config.text.tokens_per_sample > options.longest_sequence) {
    throw UsageError("--tokens_per_sample=" + std::to_string(config.text.tokens_per_sample) +
                         " is more than the number of the model's positions, " +
                         std::to_string(options.longest_sequence),
                     "--tokens_per_sample=" + std::to_string(options.longest_sequence) + " is the most");
  }
}

}  // namespace

WeightsOutline OutlineOf(const checkpoint::NamedTensors& weights, const std::string& model_config) {
  return {.shapes = models::ShapesOf(weights), .model_config = model_config};
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
                   "name the weights of a model of text with --init_weights");
}

std::string NamedConfig(const config::Config& config) {
  if (const std::string& file = config.model.config_file; !file.empty()) return ReadConfigFile(file);
  const std::string weights = GivenWeights(config);
  if (weights.empty() || !(data::IsFile(weights) || HoldsWeights(weights))) return "";  // reported when they are read
  WeightsPlace place = FindWeights(weights);
  return place.model_config.empty() ? ReadWeightsHeader(place.file).metadata[kModelConfigKey] : place.model_config;
}

models::TextOptions TextOptionsOf(const config::Config& config, const DataTokens& tokens,
                                  const WeightsOutline& weights) {
  const int64_t vocabulary = tokens.vocabulary;
  const std::string& model = config.model.name;
  models::TextOptions options = ShapeOf(config.model, weights);
  models::TextShape& shape = options.shape;
  const bool shape_is_whole = !config.model.config_file.empty();
  if (!shape_is_whole && !models::FindModel(model)->fits(weights.shapes)) {
    if (vocabulary == 0) {
      throw UsageError("the size of the vocabulary is unknown", "give --vocab_size, --model_config or --init_weights");
    }
    shape.vocab_size = vocabulary;
    shape.longest_sequence = config.text.tokens_per_sample;
  }
  RequireAgreement(options, weights.model_config, kWeightsConfig, model);
  const std::string own_config = shape_is_whole ? ReadConfigFile(config.model.config_file) : weights.model_config;
  if (shape_is_whole) RequireAgreement(options, own_config, config.model.config_file, model);
  if (!own_config.empty()) {
    shape.ties_decoder = ParseShallow(own_config).value("tie_word_embeddings", nlohmann::json(true)) == true;
  }
  RequireFits(shape, config, vocabulary);
  // BERTs with XLM-R's tokenizer are published with BERT's pad_token_id, 0, from which transformers takes the embedding
  // that does not learn, and no position.
  const bool may_be_another = shape.first_position == 0 && shape.padding_id == 0;
  if (may_be_another && (!tokens.special || tokens.special->pad != 0)) {
    const int64_t pad = PadBeside(GivenWeights(config), shape.padding_id);
    if (!tokens.special || tokens.special->pad == pad) shape.unlearned_word = std::exchange(shape.padding_id, pad);
  }
  if (tokens.special) RequireSpecialTokens(*tokens.special, options, weights.model_config, config);
  // An exported model says with which dropout it was trained, so that training it on elsewhere begins with that.
  if (config.run.mode == "export" && !weights.model_config.empty()) {
    const models::TextShape trained = OptionsIn(weights.model_config, kWeightsConfig, model).shape;
    shape.embedding_dropout = trained.embedding_dropout;
    shape.dropout = trained.dropout;
    shape.attention_dropout = trained.attention_dropout;
  }
  if (config.model.dropout) shape.embedding_dropout = shape.dropout = *config.model.dropout;
  shape.attention_dropout = config.model.attention_dropout.value_or(shape.attention_dropout);
  shape.checkpoint_activations = config.model.activation_checkpointing;
  return options;
}

std::string TakeTokensOfModel(config::Config& config) {
  const config::ModelConfig& model = config.model;
  const bool tells_shape = !model.config_file.empty() || !model.init_weights.empty();
  if (!HasBlocks(config.run) || !tells_shape || !models::ReadsText(model.name)) return "";
  if (config::WasGiven(config, "tokens_per_sample")) return "";
  const int64_t longest = ShapeOf(model, ReadOutline(model.init_weights)).shape.longest_sequence;
  if (config.text.tokens_per_sample <= longest) return "";
  config.text.tokens_per_sample = longest;
  return "--tokens_per_sample=" + std::to_string(longest) + ", as many as the model has positions";
}

int64_t BenchVocabulary(const config::Config& config) {
  if (config.text.vocab_size > 0) return config.text.vocab_size;
  const auto& named = models::FindModel(config.model.name)->text;
  return named ? named({}).shape.vocab_size : 0;
}

std::optional<double> ClassifierDropout(const config::Config& config, const WeightsOutline& weights,
                                        models::HeadKind head) {
  const config::ModelConfig& model = config.model;
  if (model.classifier_dropout) return model.classifier_dropout;
  if (model.dropout) return model.dropout;
  const std::string& file = model.config_file;
  if (file.empty() && weights.model_config.empty()) return std::nullopt;
  return Understood(file.empty() ? weights.model_config : ReadConfigFile(file), file.empty() ? kWeightsConfig : file,
                    model.name, [head](const nlohmann::json& json, const models::TextFamily& /*family*/) {
                      return models::ClassifierDropoutFromJson(json, head);
                    });
}

models::TextHead TextHeadIn(const WeightsOutline& weights, const std::string& model) {
  models::TextHead shown = models::ShownHead(weights.shapes, model);
  if (shown.labels.empty() || weights.model_config.empty()) return shown;
  const auto said = Understood(weights.model_config, kWeightsConfig, model,
                               [&shown](nlohmann::json config, const models::TextFamily& family) {
                                 const bool says_labels = config.contains("id2label") || config.contains("num_labels");
                                 if (!says_labels) config["num_labels"] = shown.outputs();
                                 auto named = models::HeadFromJson(config, family.classes);
                                 if (named) return named;
                                 // The weights have a head that the architectures do not name.
                                 config["architectures"] = {family.classes + models::FactsOf(shown.kind).ending};
                                 return models::HeadFromJson(config, family.classes);
                               });
  if (!said || said->outputs() == shown.outputs()) return said.value_or(shown);
  throw UsageError(std::string(kWeightsConfig) + " has " + std::to_string(said->outputs()) +
                       " labels (id2label, num_labels), but the classifier has " + std::to_string(shown.outputs()),
                   "correct both, or take them out: then the labels are LABEL_0, LABEL_1 and so on");
}

std::shared_ptr<models::TextModel> MakeTextModel(const models::TextOptions& options, const models::TextHead& head,
                                                 int64_t seed, at::Device device) {
  if (head.kind == models::HeadKind::kWords && !options.shape.ties_decoder) {
    throw UsageError("the config.json says with tie_word_embeddings that the decoder is not the word embedding",
                     "only models whose decoder shares the word embeddings can be used to guess words");
  }
  torch::manual_seed(static_cast<uint64_t>(seed));
  auto model = MadeIfItFits([&] { return options.Make(head); });
  model->to(device);
  return model;
}

}  // namespace dtrain::weights
