// Whether weights that come from outside are of the very network that is here. Names and shapes do not tell paddings,
// strides, activations and ε, so what comes with the weights is asked.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/family.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {

// Throws UsageError unless the fields of a config.json of Hugging Face or timm are those of the network `model`
// (models::Family::config_fields). `source` is the origin of the config.json, for messages.
void RequireKnownConfig(const nlohmann::json& config, const std::string& source, const std::string& model);

// Returns the config.json by which transformers makes the network of an image model, without its classes. It has a
// hugging_face_class. Throws UsageError if not all norms of transformers' network would have its norm_epsilon.
nlohmann::ordered_json HuggingFaceConfig(const models::Model& model);

// Returns the model that weights of these shapes at such a place were trained as (models::Family::trained_as) where
// `model`, which has the same shapes, computes something else. `model` may be null.
const models::Model* AsTrained(const models::Model* model, const models::WeightShapes& shapes,
                               const WeightsPlace& place);

// Throws UsageError if weights, without wrappers, are not of the network `model`, as far as their names and types, the
// model that the file's metadata, or a training program in it, names, the config.json beside it and its name tell. A
// name that is unknown here is warned of.
void RequireSameNetwork(const WeightsPlace& place, const checkpoint::SafetensorsContent& content,
                        const std::string& model);

// Throws UsageError if `trained`, the name of the model that weights are of, computes something else with them than
// `model` does (models::Family::unlike). `where` is the origin of the weights.
void RequireSameModel(const std::string& where, const std::string& trained, const std::string& model);

// Returns the ε of norms that a config.json says, if that is another than the model's own.
std::optional<double> NormEpsilonIn(const nlohmann::json& config, const models::Model& model);

// Throws UsageError if --model takes no images of this size, or if --init_weights is a model of Hugging Face's that
// pads them other than --model does.
void RequireImageSize(const config::Config& config, int64_t height, int64_t width);

}  // namespace dtrain::weights
