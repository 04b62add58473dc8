// The configuration as JSON, for --print_config and config.json: the flags that would give the same run. Keys are flag
// names, so that nobody has to learn a second vocabulary.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dtrain::config {

// Returns a flat object in the order of the help, with null for flags that were not given and are derived later.
// Everybody may read config.json, so the run's token is left empty and nothing of the environment is included. After
// Resolve the values are those in use.
nlohmann::ordered_json ToJson(const Config& config);

// The reverse for the flags `names`: copies the values that `saved` has to `config`, except for flags that were given
// on the command line. Returns, for people, the given flags whose value differs: "--image_size=32 instead of 64".
// Throws UsageError if `saved` has a value that is not of the flag's kind.
std::vector<std::string> TakeFrom(const nlohmann::json& saved, const std::vector<std::string>& names, Config& config);

// Returns the part of ToJson that affects what is learned, without data paths, threads, ranks, run and reports.
nlohmann::json TrainingPart(const Config& config);

// Returns the differences between two such parts, for people: "lr 0.02 → 0.005, epochs 2 → 3".
std::string Changes(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace dtrain::config
