// A task of a Slurm step (srun). The shell of a bare sbatch also has SLURM_NTASKS and SLURM_PROCID, but no step. Slurm
// starts no other process there, so it counts as a machine alone.
#include <algorithm>
#include <cstdint>

#include "data/whole_number.h"
#include "trainer/errors.h"
#include "trainer/launch/address_file.h"
#include "trainer/launch/detectors.h"
#include "trainer/launch/node_list.h"

namespace dtrain::launch {
namespace {

// Step ids from here on belong to the shells of salloc and sbatch, which are not tasks of a step.
constexpr int64_t kFirstSpecialStep = 4'294'967'290;

bool IsOrdinaryStep(const std::string& step) {
  return !step.empty() && (step.size() < 10 || std::strtoll(step.c_str(), nullptr, 10) < kFirstSpecialStep);
}

// Returns a port below the ephemeral ones. It is the same on all nodes and differs between steps, since two jobs may
// share a machine.
int PortOfStep(const Variables& variables) {
  const auto number = [&](const char* name) -> uint64_t {
    return data::WholeNumber<uint32_t>(variables.Text(name)).value_or(0);
  };
  return static_cast<int>(20'000 + (number("SLURM_JOB_ID") * 16 + number("SLURM_STEP_ID")) % 10'000);
}

void SetMaster(const Facts& facts, const Variables& variables, Launch& launch) {
  const std::string list = variables.FirstSet({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  launch.master_addr = facts.ranks.master_addr.empty() ? variables.Text("MASTER_ADDR") : facts.ranks.master_addr;
  if (launch.master_addr.empty() && !list.empty()) launch.master_addr = FirstNode(variables.Text(list));
  const auto port = variables.Number("MASTER_PORT", 1, 65535);
  launch.master_port = static_cast<int>(facts.ranks.master_port.value_or(port.value_or(PortOfStep(variables))));
  if (!launch.master_addr.empty()) return;
  launch.master_port = 0;
  launch.address_key = KeyOfRun(facts.environment, {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"});
}

int TasksOfNode(const Variables& variables, int node, int tasks, int nodes) {
  const std::string name = variables.FirstSet({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  const std::vector<int> counts = name.empty() ? std::vector<int>() : ExpandCounts(variables.Text(name));
  return static_cast<size_t>(node) < counts.size() ? counts[static_cast<size_t>(node)] : (tasks + nodes - 1) / nodes;
}

// With srun --gpus-per-task each task sees only its own GPU.
bool SeesItsOwnGpu(const Variables& variables, const Machine& machine) {
  return machine.gpus == 1 && !variables.FirstSet({"SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK"}).empty();
}

}  // namespace

std::optional<Launch> FromSlurmStep(const Facts& facts) {
  const Variables variables(
      facts.environment,
      {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_TASKS",
       "SLURM_NTASKS", "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE",
       "SLURM_TASKS_PER_NODE", "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "MASTER_ADDR", "MASTER_PORT"});
  if (!IsOrdinaryStep(variables.Text("SLURM_STEP_ID")) || !variables.Has("SLURM_PROCID")) return std::nullopt;
  const std::string tasks_name = variables.FirstSet({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  const std::string nodes_name = variables.FirstSet({"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
  const std::string hint = "start with srun, or unset SLURM_STEP_ID";
  variables.Require({tasks_name.empty() ? "SLURM_STEP_NUM_TASKS" : tasks_name, "SLURM_LOCALID"}, "Slurm", hint);
  const std::string seen = variables.Seen();
  const int tasks = *variables.Number(tasks_name, 1, kMaxRanks);
  const int nodes = variables.Number(nodes_name, 1, kMaxRanks).value_or(1);
  const int task = *variables.Number("SLURM_PROCID", 0, kMaxRanks);
  RequireBelow(task, tasks, "SLURM_PROCID", tasks_name, seen);
  if (nodes > 1) variables.Require({"SLURM_NODEID"}, "Slurm", hint);
  const int node = variables.Number("SLURM_NODEID", 0, kMaxRanks).value_or(0);
  RequireBelow(node, nodes, "SLURM_NODEID", nodes_name.empty() ? "1 node" : nodes_name, seen);

  const bool forks = tasks == nodes && !facts.ranks.nproc_per_node.empty();
  Launch launch;
  if (forks) {
    launch = NodeLevel(facts, "slurm", nodes, node, ProcessesPerNode(facts, "", ""), "", 0);
  } else {
    launch.launcher = "slurm";
    launch.rank = task;
    launch.world_size = tasks;
    launch.nnodes = nodes;
    launch.node_rank = node;
    launch.local_rank = *variables.Number("SLURM_LOCALID", 0, kMaxRanks);
    launch.local_world_size = TasksOfNode(variables, node, tasks, nodes);
    RequireBelow(launch.local_rank, launch.local_world_size, "SLURM_LOCALID", "the tasks of this node", seen);
    if (SeesItsOwnGpu(variables, facts.machine)) launch.gpu = 0;
  }
  launch.seen = seen;
  if (!forks) RequireSameProcesses(facts, launch, "srun");
  SetMaster(facts, variables, launch);
  return launch;
}

}  // namespace dtrain::launch
