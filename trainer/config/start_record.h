// Records in config.json how a run was started, beside its flags, for people who look at it later.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dtrain::config {

// The facts that only main knows.
struct Start {
  std::string version;               // "0.1.0"
  std::string commit;                // empty: unknown
  std::vector<std::string> command;  // argv
};

// Returns {"version", "commit", "host", "directory", "command", "time", "given"}: the working directory, the command
// without the run's token, the time now (UTC, ISO 8601), and the names of the flags that were given.
// --flagfile=config.json sets only these flags again, and the others are derived anew (data/command_line/arguments.h).
nlohmann::ordered_json StartRecord(const Start& start, const Config& config);

// The key of this record in config.json.
inline constexpr char kStartKey[] = "start";

}  // namespace dtrain::config
