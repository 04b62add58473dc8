// The configuration as JSON, for --print_config and config.json: what would have to be typed to get the same run. Keys
// are flag names, so that nobody has to learn a second vocabulary.
#pragma once

#include <nlohmann/json.hpp>

#include "trainer/config/config.h"

namespace dtrain::config {

// A flat object in the order of the help; null for what was not said and is derived later. Nothing of the environment
// gets in, nor does the run's token: config.json is for all to read. For the sizes in use, put ResolveBatch's result
// into the config first.
nlohmann::ordered_json ToJson(const Config& config);

}  // namespace dtrain::config
