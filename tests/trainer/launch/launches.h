// Helpers for tests of launchers: environments, and a launch as one line of text.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/words.h"
#include "trainer/errors.h"
#include "trainer/launch/launch.h"

namespace dtrain::launch {

inline config::RanksConfig Nproc(const std::string& nproc) {
  config::RanksConfig ranks;
  ranks.nproc_per_node = nproc;
  return ranks;
}

// Detects the launch of `variables`, NAME=VALUE with spaces between them, of which the last of a name counts, on a
// machine of six cores.
inline Launch Detect(const config::RanksConfig& ranks, const std::string& variables, int gpus = 0) {
  Environment environment;
  for (const std::string& variable : Words(variables)) {
    const size_t equals = variable.find('=');
    environment[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return DetectLaunch(ranks, environment, {.gpus = gpus, .cores = 6, .address = "10.0.0.9"});
}

// Returns "launcher rank/world local_rank/local_world node/nnodes addr:port spawns", or "refused: " and why.
inline std::string TextOf(const config::RanksConfig& ranks, const std::string& variables, int gpus = 0) {
  const auto slash = [](int a, int b) { return std::to_string(a) + "/" + std::to_string(b) + " "; };
  try {
    const Launch launch = Detect(ranks, variables, gpus);
    return std::string(launch.launcher.name) + " " + slash(launch.rank, launch.world_size) +
           slash(launch.local_rank, launch.local_world_size) + slash(launch.node_rank, launch.nnodes) +
           launch.master_addr + ":" + std::to_string(launch.master_port) + " " + std::to_string(launch.spawns);
  } catch (const UsageError& error) {
    return "refused: " + std::string(error.what()) + "\n" + error.hint();
  }
}

struct LaunchCase {
  config::RanksConfig ranks;
  std::string variables;
  std::string text;  // as TextOf returns it, or a part of the refusal
  int gpus = 0;
};

inline void ExpectLaunches(const std::string& variables, const std::vector<LaunchCase>& cases) {
  for (const LaunchCase& c : cases) EXPECT_EQ(TextOf(c.ranks, variables + " " + c.variables, c.gpus), c.text);
}

inline void ExpectRefused(const std::string& variables, const std::vector<LaunchCase>& cases) {
  for (const LaunchCase& c : cases) {
    EXPECT_THAT(TextOf(c.ranks, variables + " " + c.variables, c.gpus),
                testing::AllOf(testing::StartsWith("refused: "), testing::HasSubstr(c.text)));
  }
}

}  // namespace dtrain::launch
