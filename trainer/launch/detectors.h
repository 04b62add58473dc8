// What the functions that detect a launcher, one each, have in common: their input, a machine's number of ranks, rank
// 0's address. launch.cc lists them.
#pragma once

#include <optional>
#include <string>

#include "trainer/launch/launch.h"
#include "trainer/launch/variables.h"

namespace dtrain::launch {

constexpr int kDefaultMasterPort = 29500;

// The input of a detector.
struct Facts {
  const config::RanksConfig& ranks;
  const Environment& environment;
  const Machine& machine;
};

// Returns the number of --nproc_per_node; empty if it was not given or is auto. Throws UsageError for anything else.
std::optional<int> GivenProcesses(const config::RanksConfig& ranks);

// Returns the number of ranks that this process is to fork on its machine: --nproc_per_node if given, else `otherwise`
// (a number, auto, gpu, cpu, or empty for auto), which is the value of the variable `name`. auto is one rank per GPU,
// or one. Throws UsageError.
int ProcessesPerNode(const Facts& facts, const std::string& otherwise, const std::string& name);

// Returns the number of ranks of a machine if no variable tells: --nproc_per_node, or one per GPU, or all `world_size`.
int AssumedLocalWorldSize(const Facts& facts, int world_size);

// The value of --nnodes or PET_NNODES: "4", or torchrun's elastic "2:4".
struct NodeCount {
  int minimum = 1;
  int maximum = 1;
};
// Throws UsageError that quotes `name` and `seen` if `text` is no such value.
NodeCount ParseNodeCount(const std::string& text, const std::string& name, const std::string& seen);

// Returns the launch of a launcher that starts one process per machine, which forks `processes` ranks. --master_addr
// and --master_port override `address` and `port`.
Launch NodeLevel(const Facts& facts, const std::string& launcher, int nnodes, int node_rank, int processes,
                 const std::string& address, int port);

// Returns the number of ranks that this process forks, `processes`, or 0 if it can be the only rank itself.
int Spawns(const config::RanksConfig& ranks, int processes);

// Throws UsageError if --nproc_per_node is a number and differs from the number of local ranks that `launcher` started.
void RequireSameProcesses(const Facts& facts, const Launch& launch, const std::string& launcher);

}  // namespace dtrain::launch
