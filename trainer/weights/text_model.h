// Determines the model of text that a configuration describes. Its shape comes from its name or a config.json; the
// numbers of words and positions come from its weights or from the data.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "data/text/tokenizer.h"
#include "models/text_model.h"
#include "models/weight_names.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"

namespace dtrain::weights {

// The key of a weights file's metadata, and of a checkpoint's state, that holds the config.json of its model.
inline constexpr char kModelConfigKey[] = "model_config";
// The key of a checkpoint's description of its run that holds the shape of a text model: a config.json without
// dropouts, since they may change in a run.
inline constexpr char kModelShapeKey[] = "model_shape";

// What is known of weights without reading the tensors.
struct WeightsOutline {
  models::WeightShapes shapes;  // by the names in the file
  std::string model_config;     // JSON; empty if unknown
};

WeightsOutline OutlineOf(const checkpoint::NamedTensors& weights, const std::string& model_config);
// Returns the outline of a file, or of a folder written by Hugging Face's save_pretrained, reading only the header.
// Empty if `path` is empty. Throws as FindWeights and ReadWeightsFile do, and UsageError for weights of an image model.
WeightsOutline ReadOutline(const std::string& path);

// Returns the config.json that --model_config names, else that beside GivenWeights (run_settings.h) or in their
// metadata; empty if there is none. Throws UsageError if --model_config is no file, and as ReadWeightsFile does.
std::string NamedConfig(const config::Config& config);

// What the data says of its tokens.
struct DataTokens {
  int64_t vocabulary = 0;                           // every token is below it; 0: unknown
  std::optional<data::SpecialTokens> special = {};  // of its tokenizer or dictionary; empty: unknown
};

// Throws UsageError if the shape or the vocabulary is unknown, if the model has fewer positions than
// --tokens_per_sample, or if the data's tokens cannot be the model's: it has fewer words, or its config.json says other
// ids of special tokens. A BERT's own <pad> is that of the tokenizer beside its weights.
models::TextOptions TextOptionsOf(const config::Config& config, const DataTokens& tokens,
                                  const WeightsOutline& weights);

// Lowers --tokens_per_sample, unless it was given, to the number of positions of the model whose shape is told by
// --model_config or --init_weights. Returns a sentence for the log; empty if nothing changed. Throws as TextOptionsOf
// does.
std::string TakeTokensOfModel(config::Config& config);

// Returns the vocabulary of a model that dtrain_bench measures; 0: that in its config.json.
int64_t BenchVocabulary(const config::Config& config);

// Returns the dropout of the head of a model that is made: --classifier_dropout, else --dropout, else
// that of the config.json of the shape. Throws as TextOptionsOf does.
std::optional<double> ClassifierDropout(const config::Config& config, const WeightsOutline& weights,
                                        models::HeadKind head);

// Returns the head that weights of `model`'s family come with: the one that guesses words if they have none that labels
// something. Labels are LABEL_0, LABEL_1, … if their names are unknown; one label without a config.json that says more
// is a number.
models::TextHead TextHeadIn(const WeightsOutline& weights, const std::string& model);

// Makes a model on `device` whose weights are drawn with `seed`. Seeds LibTorch's generators. Throws UsageError if it
// guesses words with another decoder than their embeddings.
std::shared_ptr<models::TextModel> MakeTextModel(const models::TextOptions& options, const models::TextHead& head,
                                                 int64_t seed, at::Device device);

}  // namespace dtrain::weights
