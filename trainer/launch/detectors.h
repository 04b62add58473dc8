// What the functions that detect a launcher (launchers.cc) have in common: their input, a launcher's variables, a
// machine's number of ranks, rank 0's address, Slurm's lists of machines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

using config::kMaxRanks;

// Throws UsageError that names both and quotes `seen` unless 0 ≤ value < limit.
void RequireBelow(int value, int limit, const std::string& value_name, const std::string& limit_name,
                  const std::string& seen);

// The variables of one launcher. Error messages quote those that were seen.
class Variables {
 public:
  // `names` are the variables that Seen quotes. `environment` must outlive this object.
  Variables(const Environment& environment, std::vector<std::string> names)
      : environment_(environment), names_(std::move(names)) {}

  std::string Text(const std::string& name) const { return ValueOf(environment_, name); }
  bool Has(const std::string& name) const { return !Text(name).empty(); }

  // Returns the first of these names that is set; empty if none is.
  std::string FirstSet(const std::vector<std::string>& names) const;

  // Returns empty if it is not set. Throws UsageError if it is not a whole number from `minimum` to `maximum`.
  std::optional<int> Number(const std::string& name, int minimum, int maximum) const;

  // Throws UsageError naming `launcher`, the variables seen and the missing ones unless all of `names` are set.
  void Require(const std::vector<std::string>& names, const std::string& launcher, const std::string& hint) const;

  // Returns those that are set, for messages: "RANK=0, WORLD_SIZE=2".
  std::string Seen() const;

 private:
  const Environment& environment_;
  std::vector<std::string> names_;
};

constexpr int kDefaultMasterPort = 29500;

// The input of a detector.
struct Facts {
  const config::RanksConfig& ranks;
  const Environment& environment;
  const Machine& machine;
};

// Returns what the first of the launchers that recognises its variables says. Throws UsageError as DetectLaunch does.
Launch FirstMatch(const Facts& facts);

// Returns the names of the launchers for messages: "torchrun, openmpi, slurm".
std::string NamesOfLaunchers();

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
Launch NodeLevel(const Facts& facts, const std::string& seen, int nnodes, int node_rank, int processes,
                 const std::string& address, int port);

// The variables in which a launcher that starts a process for each rank numbers them.
struct RankVariables {
  std::string title, hint;  // for messages: whose variables are half set, and what to do
  std::string rank, world_size, local_rank;
  std::string local_world_size = {};     // may be missing; empty: it has none
  std::string nnodes = {};               // likewise; the local ranks are then as equal in number as can be
  std::vector<std::string> others = {};  // which messages quote
};

// Returns all of them, with MASTER_ADDR and MASTER_PORT.
Variables VariablesOf(const Facts& facts, const RankVariables& names);

// Returns the launch of such a launcher, with the numbers of its variables and the machines that they make, over which
// its ranks are distributed in blocks. Empty if neither the rank nor the number of ranks is set. Throws UsageError if
// they are half set or contradict each other, or --nproc_per_node is another number than that of the local ranks.
std::optional<Launch> RankLevel(const Facts& facts, const RankVariables& names);

// Throws UsageError if --nproc_per_node is a number and differs from the number of local ranks that `launcher` started.
void RequireSameProcesses(const Facts& facts, const Launch& launch, const std::string& launcher);

// Slurm's compressed lists are read without scontrol, which containers lack. Returns the first machine of a list:
// "gpu[01-03,07],login2" → gpu01. A name may have several brackets. Throws UsageError naming `text` if it is malformed.
std::string FirstNode(const std::string& text);

// Expands Slurm's counts per machine: "2(x3),1" → 2 2 2 1. Throws UsageError naming `text` if it is malformed or has
// more than 65,536 counts.
std::vector<int> ExpandCounts(const std::string& text);

}  // namespace dtrain::launch
