// torchrun and programs that imitate it, recognised by RANK and LOCAL_RANK together. With --virtual-local-rank
// LOCAL_RANK is 0 in every process, and each process sees only its own GPU.
#include "trainer/errors.h"
#include "trainer/launch/detectors.h"

namespace dtrain::launch {
namespace {

Variables TorchrunVariables(const Facts& facts) {
  return {facts.environment,
          {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR",
           "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"}};
}

void RequireComplete(const Variables& variables) {
  variables.Require({"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, "torchrun",
                    "start with torchrun --no-python, set all of them, or unset those that are set");
}

void RequireNoContradiction(const Facts& facts, const Launch& launch) {
  RequireSameProcesses(facts, launch, "torchrun");
  const std::string& address = facts.ranks.master_addr;
  const auto& port = facts.ranks.master_port;
  if ((!address.empty() && address != launch.master_addr) || (port && *port != launch.master_port)) {
    throw UsageError("--master_addr and --master_port contradict torchrun's variables",
                     "leave them to torchrun; seen: " + launch.seen);
  }
}

}  // namespace

std::optional<Launch> FromTorchrun(const Facts& facts) {
  const Variables variables = TorchrunVariables(facts);
  if (!variables.Has("RANK") || !variables.Has("LOCAL_RANK")) return std::nullopt;
  RequireComplete(variables);
  Launch launch = RankLevel(facts, "torchrun", variables, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  const auto groups = variables.Number("GROUP_WORLD_SIZE", 1, kMaxRanks);
  if (launch.world_size % launch.local_world_size != 0) launch.nnodes = groups.value_or(launch.nnodes);
  launch.node_rank = variables.Number("GROUP_RANK", 0, kMaxRanks).value_or(launch.rank / launch.local_world_size);
  if (groups) RequireBelow(launch.node_rank, *groups, "GROUP_RANK", "GROUP_WORLD_SIZE", launch.seen);
  launch.master_addr = variables.Text("MASTER_ADDR");
  launch.master_port = *variables.Number("MASTER_PORT", 1, 65535);
  launch.restart_count = variables.Number("TORCHELASTIC_RESTART_COUNT", 0, kMaxRanks).value_or(0);
  launch.agent_store = variables.Text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  RequireNoContradiction(facts, launch);
  return launch;
}

std::optional<Launch> HalfSetTorchrun(const Facts& facts) {
  const Variables variables = TorchrunVariables(facts);
  if (!variables.FirstSet({"RANK", "LOCAL_RANK", "WORLD_SIZE"}).empty()) RequireComplete(variables);
  return std::nullopt;
}

}  // namespace dtrain::launch
