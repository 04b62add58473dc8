// One function per launcher: a Launch where it recognises itself, nothing where it does not, UsageError where it was
// set up wrongly. And what they share: how many ranks a machine gets, and where rank 0 is.
#pragma once

#include <optional>
#include <string>

#include "trainer/launch/launch.h"
#include "trainer/launch/variables.h"

namespace dtrain::launch {

constexpr int kDefaultMasterPort = 29500;

struct Facts {
  const config::RanksConfig& ranks;
  const Environment& environment;
  const Machine& machine;
};

using Detector = std::optional<Launch> (*)(const Facts&);

std::optional<Launch> FromFlags(const Facts& facts);
std::optional<Launch> FromTorchrun(const Facts& facts);
std::optional<Launch> FromOpenMpi(const Facts& facts);
std::optional<Launch> FromSlurmStep(const Facts& facts);
std::optional<Launch> FromKubeflowTrainer(const Facts& facts);
std::optional<Launch> FromPods(const Facts& facts);  // PyTorchJob, Volcano
std::optional<Launch> FromAwsBatch(const Facts& facts);
std::optional<Launch> HalfSetTorchrun(const Facts& facts);  // throws, or nothing: only remnants are left to see
std::optional<Launch> ThisMachine(const Facts& facts);      // always

// What --nproc_per_node says as a number; nothing where it was not given, or leaves the choice to the launcher (auto).
std::optional<int> GivenProcesses(const config::RanksConfig& ranks);

// Ranks of each machine where this process is to fork them: as --nproc_per_node says, or else `otherwise` (a number,
// auto, gpu, cpu, or empty for auto), which came from the variable `name`.
int ProcessesPerNode(const Facts& facts, const std::string& otherwise, const std::string& name);

// Ranks of one machine where no variable says it: as the flag says, or one per GPU, or all on this machine.
int AssumedLocalWorldSize(const Facts& facts, int world_size);

// --nnodes and PET_NNODES: "4", or torchrun's elastic "2:4".
struct NodeCount {
  int minimum = 1;
  int maximum = 1;
};
NodeCount ParseNodeCount(const std::string& text, const std::string& name, const std::string& seen);

// One process per machine, which forks `processes` ranks. Address and port: the flags' where given, or else these.
Launch NodeLevel(const Facts& facts, const std::string& launcher, int nnodes, int node_rank, int processes,
                 const std::string& address, int port);

// How many ranks this process forks to have `processes` of them: none where it can be the only one itself.
int Spawns(const config::RanksConfig& ranks, int processes);

// Throws UsageError where --nproc_per_node is a number and not how many local ranks there are: started by `launcher`.
void RequireSameProcesses(const Facts& facts, const Launch& launch, const std::string& launcher);

}  // namespace dtrain::launch
