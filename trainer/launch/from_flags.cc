// Flags give the ranks: this process is a rank (--rank …), or forks the ranks of a machine (--node_rank …).
#include <algorithm>
#include <limits>
#include <vector>

#include "data/joined.h"
#include "trainer/errors.h"
#include "trainer/launch/detectors.h"

namespace dtrain::launch {
namespace {

int Narrow(int64_t value) { return static_cast<int>(std::clamp<int64_t>(value, -1, std::numeric_limits<int>::max())); }

// The flags that were given, and the required ones that are missing.
struct Inventory {
  std::vector<std::string> given;
  std::vector<std::string> missing;

  void Note(const std::string& name, const std::string& value, bool needed) {
    if (!value.empty()) given.push_back("--" + name + "=" + value);
    if (value.empty() && needed) missing.push_back("--" + name);
  }
  void Note(const std::string& name, const std::optional<int64_t>& value, bool needed) {
    Note(name, value ? std::to_string(*value) : "", needed);
  }
  void RequireComplete(const std::string& hint) const {
    if (missing.empty()) return;
    throw UsageError("the ranks are half set: " + Joined(given) + " given, " + Joined(missing) + " missing", hint);
  }
};

Launch OneRank(const Facts& facts) {
  const config::RanksConfig& ranks = facts.ranks;
  const bool several = !ranks.world_size || *ranks.world_size > 1;
  Inventory flags;
  flags.Note("rank", ranks.rank, true);
  flags.Note("world_size", ranks.world_size, true);
  flags.Note("local_rank", ranks.local_rank, false);
  flags.Note("master_addr", ranks.master_addr, several);
  flags.Note("master_port", ranks.master_port, several);
  flags.RequireComplete("give all of them to every process, or none and start with torchrun or --nproc_per_node");
  Launch launch;
  launch.launcher = "flags";
  launch.seen = Joined(flags.given);
  launch.world_size = Narrow(*ranks.world_size);
  if (launch.world_size < 1 || launch.world_size > kMaxRanks) {
    throw UsageError("--world_size must be from 1 to " + std::to_string(kMaxRanks), "seen: " + launch.seen);
  }
  if (ranks.node_rank) {
    throw UsageError("--node_rank and --rank cannot be given together: both identify this process", "leave one out");
  }
  launch.rank = Narrow(*ranks.rank);
  RequireBelow(launch.rank, launch.world_size, "--rank", "--world_size", launch.seen);
  const int nodes = ranks.nnodes.empty() ? 0 : ParseNodeCount(ranks.nnodes, "--nnodes", launch.seen).maximum;
  const int local = nodes > 0 && !GivenProcesses(ranks) ? (launch.world_size + nodes - 1) / nodes
                                                        : AssumedLocalWorldSize(facts, launch.world_size);
  launch.local_rank = ranks.local_rank ? Narrow(*ranks.local_rank) : launch.rank % local;
  const bool local_known = GivenProcesses(ranks).has_value();
  RequireBelow(launch.local_rank, local_known ? local : launch.world_size, "--local_rank",
               local_known ? "--nproc_per_node" : "--world_size", launch.seen);
  launch.local_world_size = std::min(std::max(local, launch.local_rank + 1), launch.world_size);
  launch.nnodes = (launch.world_size + launch.local_world_size - 1) / launch.local_world_size;
  launch.node_rank = launch.rank / launch.local_world_size;
  if (!ranks.master_addr.empty()) launch.master_addr = ranks.master_addr;
  launch.master_port = static_cast<int>(ranks.master_port.value_or(0));
  return launch;
}

Launch OneNode(const Facts& facts) {
  const config::RanksConfig& ranks = facts.ranks;
  Inventory flags;
  flags.Note("nnodes", ranks.nnodes, true);
  flags.Note("node_rank", ranks.node_rank, true);
  flags.Note("nproc_per_node", ranks.nproc_per_node, false);
  flags.Note("master_addr", ranks.master_addr, ranks.nnodes != "1");
  flags.Note("master_port", ranks.master_port, false);
  flags.RequireComplete("give the same --nnodes, --master_addr and --master_port on every machine");
  const std::string seen = Joined(flags.given);
  const NodeCount nodes = ParseNodeCount(ranks.nnodes, "--nnodes", seen);
  if (nodes.minimum != nodes.maximum) {
    throw UsageError(
        "--nnodes=" + ranks.nnodes + ": a number of machines that may change needs torchrun",
        "start with torchrun --no-python --nnodes=" + ranks.nnodes + ", or give one number; seen: " + seen);
  }
  const int node_rank = Narrow(*ranks.node_rank);
  RequireBelow(node_rank, nodes.maximum, "--node_rank", "--nnodes", seen);
  Launch launch = NodeLevel(facts, "flags", nodes.maximum, node_rank, ProcessesPerNode(facts, "", ""),
                            ranks.master_addr, kDefaultMasterPort);
  launch.seen = seen;
  return launch;
}

}  // namespace

std::optional<Launch> FromFlags(const Facts& facts) {
  const config::RanksConfig& ranks = facts.ranks;
  if (ranks.rank || ranks.world_size || ranks.local_rank) return OneRank(facts);
  if (ranks.node_rank) return OneNode(facts);
  return std::nullopt;
}

}  // namespace dtrain::launch
