// The config.json that timm expects beside weights, for example in a model's folder on the Hugging Face hub.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "data/classes.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

// Returns its content: the architecture, the classes, and size, normalisation and crop of the images in evaluation.
nlohmann::ordered_json TimmConfig(const std::string& model, int64_t num_classes, const data::Classes& classes,
                                  const config::ImageConfig& image);

}  // namespace dtrain::loop
