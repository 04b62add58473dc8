// Which launcher started this process, and what it says about ranks: a pure function of flags and environment.
#pragma once

#include <map>
#include <string>

#include "trainer/config/config.h"

namespace dtrain::launch {

using Environment = std::map<std::string, std::string>;

struct Launch {
  std::string launcher = "single";  // flags | torchrun | single
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int nnodes = 1;
  int node_rank = 0;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;       // 0: rank 0 chooses
  int spawns = 0;            // > 0: this process forks that many local ranks and is none itself
  int restart_count = 0;     // of an elastic launcher: how often the job was started again
  bool agent_store = false;  // torchrun's agent already serves a store at master_addr:master_port
};

// Copies the process environment.
Environment ReadEnvironment();

// Explicit flags win over torchrun's variables, which win over none. `devices` is the number of local GPUs: what
// --nproc_per_node=auto means (1 without any). Throws UsageError naming the variables seen when they are half set or
// contradict each other.
Launch DetectLaunch(const config::RanksConfig& ranks, const Environment& environment, int devices);

}  // namespace dtrain::launch
