// The configuration as JSON, for --print_config and config.json: the flags that would give the same run. Keys are flag
// names, so that nobody has to learn a second vocabulary.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/outputs.h"
#include "trainer/config/config.h"
#include "trainer/config/flags.h"

namespace dtrain::config {

// Returns a flat object in the order of the help, with null for flags that were not given and are derived later.
// Everybody may read config.json, so the run's token is left empty and nothing of the environment is included. After
// Resolve the values are those in use.
nlohmann::ordered_json ToJson(const Config& config);

// Returns a flag's value; null for monostate.
nlohmann::ordered_json ToJson(const Value& value);

// The reverse for the flags `names`: copies the values that `saved` has to `config`, except for flags that were given
// on the command line. Returns, for people, the given flags whose value differs: "--image_size=32 instead of 64".
// Throws UsageError, which names the `origin`, if `saved` has a value that is not of the flag's kind, for one that was
// not given.
std::vector<std::string> TakeFrom(const nlohmann::json& saved, const std::vector<std::string>& names, Config& config,
                                  const std::string& origin = "the run's configuration");

// Returns the part of ToJson that affects what is learned, without data paths, threads, ranks, run and reports.
nlohmann::json TrainingPart(const Config& config);

// Returns the differences between two such parts, for people: "lr 0.02 → 0.005, epochs 2 → 3".
std::string Changes(const nlohmann::json& before, const nlohmann::json& now);

// How a run was started, which config.json tells beside its flags: the facts that only main knows.
struct Start {
  std::string version;               // "0.1.0"
  std::string commit;                // empty: unknown
  std::vector<std::string> command;  // argv
};

// Returns {"version", "commit", "host", "directory", "command", "time", "given", "changes_no_result"}: the working
// directory, the command without the run's token, the time now (UTC, ISO 8601), the names of the flags that were given,
// and of those that have the trait.
// --flagfile=config.json sets only these flags again, and the others are derived anew (data/command_line/parser.h).
nlohmann::ordered_json StartRecord(const Start& start, const Config& config);

// How config.json is known again.
inline const data::Mark kConfigMark = {"{", "\"run_dir\":"};

// The key of this record in config.json.
inline constexpr char kStartKey[] = "start";

}  // namespace dtrain::config
