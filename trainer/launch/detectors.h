// One function per launcher: it returns a Launch if it recognises its variables, empty if not, and throws UsageError if
// they are set up wrongly. The functions that they share (a machine's number of ranks, rank 0's address) are below.
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

using Detector = std::optional<Launch> (*)(const Facts&);

std::optional<Launch> FromFlags(const Facts& facts);
std::optional<Launch> FromTorchrun(const Facts& facts);
std::optional<Launch> FromOpenMpi(const Facts& facts);
std::optional<Launch> FromSlurmStep(const Facts& facts);
std::optional<Launch> FromKubeflowTrainer(const Facts& facts);
std::optional<Launch> FromPods(const Facts& facts);  // PyTorchJob, Volcano
std::optional<Launch> FromAwsBatch(const Facts& facts);
std::optional<Launch> FromOtherMpi(const Facts& facts);     // MPICH, Intel MPI: throws or is empty
std::optional<Launch> HalfSetTorchrun(const Facts& facts);  // for remnants of torchrun's variables: throws or is empty
std::optional<Launch> ThisMachine(const Facts& facts);      // matches always

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
