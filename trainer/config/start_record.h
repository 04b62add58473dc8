// How a run was started, for those who look at its config.json later: the part of it that is no flag.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dtrain::config {

// What only main knows.
struct Start {
  std::string version;               // "0.1.0"
  std::string commit;                // empty: not known
  std::vector<std::string> command;  // argv
};

// {"version", "commit", "host", "directory", "command", "time", "given"}: the time now (UTC, ISO 8601), the working
// directory, the command without the run's token, and the names of the flags that were given. --flagfile=config.json
// takes the latter again and derives the others anew (data/command_line/arguments.h).
nlohmann::ordered_json StartRecord(const Start& start, const Config& config);

// Its key in config.json.
inline constexpr char kStartKey[] = "start";

}  // namespace dtrain::config
