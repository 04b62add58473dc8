// Helpers for tests of launchers: environments, and a launch as one line of text.
#pragma once

#include <string>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

inline Environment With(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

inline config::RanksConfig Nproc(const std::string& nproc) {
  config::RanksConfig ranks;
  ranks.nproc_per_node = nproc;
  return ranks;
}

// Returns "launcher rank/world local_rank/local_world node/nnodes addr:port spawns".
inline std::string Text(const Launch& launch) {
  const auto slash = [](int a, int b) { return std::to_string(a) + "/" + std::to_string(b) + " "; };
  return launch.launcher + " " + slash(launch.rank, launch.world_size) +
         slash(launch.local_rank, launch.local_world_size) + slash(launch.node_rank, launch.nnodes) +
         launch.master_addr + ":" + std::to_string(launch.master_port) + " " + std::to_string(launch.spawns);
}

}  // namespace dtrain::launch
