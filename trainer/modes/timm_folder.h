// What stands beside weights in a folder of timm's: on the Hugging Face hub, for one.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "data/classes.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

// Its config.json: the architecture, its classes, and the images that it was trained on as `image` says it.
nlohmann::ordered_json TimmConfig(const std::string& model, int64_t num_classes, const data::Classes& classes,
                                  const config::ImageConfig& image);

}  // namespace dtrain::loop
