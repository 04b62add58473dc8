// The configuration as JSON, for --print_config and config.json: what would have to be typed to get the same run. Keys
// are flag names, so that nobody has to learn a second vocabulary.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dtrain::config {

// A flat object in the order of the help; null for what was not said and is derived later. Nothing of the environment
// gets in, nor does the run's token: config.json is for all to read. For the sizes in use, put ResolveBatch's result
// into the config first.
nlohmann::ordered_json ToJson(const Config& config);

// The other way for the flags named: those that were not given on the command line are taken from `saved`, where it has
// them. Returns, for people, the given ones that say something else: "--image_size=32 instead of 64". Throws UsageError
// where a value of `saved` is none that the flag can have.
std::vector<std::string> TakeFrom(const nlohmann::json& saved, const std::vector<std::string>& names, Config& config);

// The part of ToJson that changes what is trained: no paths of data, threads, ranks and reports.
nlohmann::json TrainingPart(const Config& config);

// "lr 0.02 → 0.005, epochs 2 → 3": what differs between two such parts.
std::string Changes(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace dtrain::config
