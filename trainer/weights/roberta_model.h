// Determines the RoBERTa that a configuration describes. Its shape comes from its name or a config.json; the numbers of
// words and positions come from its weights or from the data.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/roberta.h"
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
  std::map<std::string, std::vector<int64_t>> shapes;  // by the names in the file
  std::string model_config;                            // JSON; empty if unknown
};

WeightsOutline OutlineOf(const checkpoint::NamedTensors& weights, const std::string& model_config);
// Returns the outline of a file, or of a folder written by Hugging Face's save_pretrained, reading only the header.
// Empty if `path` is empty. Throws as FindWeights and ReadWeightsFile do, and UsageError for weights of an image model.
WeightsOutline ReadOutline(const std::string& path);

// `vocabulary` is the number of token ids of the data, or 0 if unknown. Throws UsageError if the shape or the
// vocabulary is unknown, or if the model has fewer words than the data or fewer positions than --tokens_per_sample.
models::RobertaOptions RobertaOptionsOf(const config::Config& config, int64_t vocabulary,
                                        const WeightsOutline& weights);

// Lowers --tokens_per_sample, unless it was given, to the number of positions of the model whose shape is told by
// --model_config or --init_weights. Returns a sentence for the log; empty if nothing changed. Throws as
// RobertaOptionsOf does.
std::string TakeTokensOfModel(config::Config& config);

// Returns the config.json of the model that training would make. Throws as RobertaOptionsOf and ReadOutline do.
std::string ModelConfigOf(const config::Config& config, int64_t vocabulary);

// Returns the vocabulary of a model that dtrain_bench measures; 0: that in its config.json.
int64_t BenchVocabulary(const config::Config& config);

// A RoBERTa that classifies sequences, or gives each a number.
struct SequenceClassifier {
  models::RobertaOptions encoder;
  models::ClassifierOptions head;
};

// `labels` are those of the data; for a regression one name. Throws as RobertaOptionsOf does. --dropout replaces the
// head's dropout, too.
SequenceClassifier SequenceClassifierOf(const config::Config& config, int64_t vocabulary, const WeightsOutline& weights,
                                        std::vector<std::string> labels, bool regression);

// Returns the classifier that weights come with; empty if they have none. Labels are LABEL_0, LABEL_1, … if their names
// are unknown; one label without a config.json that says more is a regression.
std::optional<models::ClassifierOptions> ClassifierIn(const WeightsOutline& weights);

// Makes a model as MakeRoberta does.
std::shared_ptr<models::RobertaForSequenceClassification> MakeSequenceClassifier(const SequenceClassifier& options,
                                                                                 int64_t seed, at::Device device);

// Makes a model on `device` whose weights are drawn with `seed`. Seeds LibTorch's generators.
std::shared_ptr<models::RobertaForMaskedLM> MakeRoberta(const models::RobertaOptions& options, int64_t seed,
                                                        at::Device device);

}  // namespace dtrain::weights
