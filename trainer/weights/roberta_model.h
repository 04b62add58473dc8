// Which RoBERTa a configuration means: a name or a config.json says its shape, its weights or its data how many words
// and positions it has.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/roberta.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

// In a weights file's metadata: its model's config.json, so that a file knows what it is.
inline constexpr char kModelConfigKey[] = "model_config";
// In a checkpoint's description of its run: the shape of a model of text, as its config.json has it.
inline constexpr char kModelShapeKey[] = "model_shape";

// What weights say of their model without being read.
struct WeightsOutline {
  std::map<std::string, std::vector<int64_t>> shapes;  // by the file's names
  std::string model_config;                            // JSON; empty: not said
};

WeightsOutline OutlineOf(const checkpoint::NamedTensors& weights, const std::string& model_config);
// The same of a file, or of a folder as Hugging Face's save_pretrained leaves it; nothing but the header is read. Empty
// where `path` is. Throws as ReadInitialWeights does.
WeightsOutline ReadOutline(const std::string& path);

// `vocabulary`: token ids of the data are below it; 0: unknown. Throws UsageError where the shape is not said, where
// the model has fewer words than the data or fewer positions than --tokens_per_sample.
models::RobertaOptions RobertaOptionsOf(const config::Config& config, int64_t vocabulary,
                                        const WeightsOutline& weights);

// The config.json of the model that training makes.
std::string ModelConfigOf(const config::Config& config, int64_t vocabulary);

// Its weights are drawn from --seed.
std::shared_ptr<models::RobertaForMaskedLM> MakeRoberta(const models::RobertaOptions& options, int64_t seed,
                                                        at::Device device);

}  // namespace dtrain::loop
