// The launchers that are known, a function each, in the order in which they are asked. The most specific come first,
// because outer launchers leak their variables into the processes that they start.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/joined.h"
#include "data/whole_number.h"
#include "trainer/errors.h"
#include "trainer/launch/address_file.h"
#include "trainer/launch/detectors.h"
#include "trainer/launch/local_address.h"

namespace dtrain::launch {
namespace {

// ---- Flags ---------------------------------------------------------------------------------------------------------
// Flags give the ranks: this process is a rank (--rank …), or forks the ranks of a machine (--node_rank …).

int Narrow(int64_t value) { return static_cast<int>(std::clamp<int64_t>(value, -1, std::numeric_limits<int>::max())); }

// The flags that were given, and the required ones that are missing.
struct GivenFlags {
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
  GivenFlags flags;
  flags.Note("rank", ranks.rank, true);
  flags.Note("world_size", ranks.world_size, true);
  flags.Note("local_rank", ranks.local_rank, false);
  flags.Note("master_addr", ranks.master_addr, several);
  flags.Note("master_port", ranks.master_port, several);
  flags.RequireComplete("give all of them to every process, or none and start with torchrun or --nproc_per_node");
  Launch launch;
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

// Only torchrun's rendezvous can change the number of machines. Without torchrun it must be a single number.
int FixedNodeCount(const std::string& text, const std::string& name, const std::string& seen) {
  const NodeCount nodes = ParseNodeCount(text, name, seen);
  if (nodes.minimum == nodes.maximum) return nodes.maximum;
  throw UsageError(name + "=" + text + ": a number of machines that may change needs torchrun",
                   "start with torchrun --no-python --nnodes=" + text + ", or give one number; seen: " + seen);
}

Launch OneNode(const Facts& facts) {
  const config::RanksConfig& ranks = facts.ranks;
  GivenFlags flags;
  flags.Note("nnodes", ranks.nnodes, true);
  flags.Note("node_rank", ranks.node_rank, true);
  flags.Note("nproc_per_node", ranks.nproc_per_node, false);
  flags.Note("master_addr", ranks.master_addr, ranks.nnodes != "1");
  flags.Note("master_port", ranks.master_port, false);
  flags.RequireComplete("give the same --nnodes, --master_addr and --master_port on every machine");
  const std::string seen = Joined(flags.given);
  const int nodes = FixedNodeCount(ranks.nnodes, "--nnodes", seen), node_rank = Narrow(*ranks.node_rank);
  RequireBelow(node_rank, nodes, "--node_rank", "--nnodes", seen);
  return NodeLevel(facts, seen, nodes, node_rank, ProcessesPerNode(facts, "", ""), ranks.master_addr,
                   kDefaultMasterPort);
}

std::optional<Launch> FromFlags(const Facts& facts) {
  const config::RanksConfig& ranks = facts.ranks;
  if (ranks.rank || ranks.world_size || ranks.local_rank) return OneRank(facts);
  if (ranks.node_rank) return OneNode(facts);
  return std::nullopt;
}

// ---- torchrun ------------------------------------------------------------------------------------------------------
// torchrun and programs that imitate it, recognised by RANK and LOCAL_RANK together. With --virtual-local-rank
// LOCAL_RANK is 0 in every process, and each process sees only its own GPU.

const RankVariables kTorchrun = {
    .title = "torchrun",
    .hint = "start with torchrun --no-python, set all of them, or unset those that are set",
    .rank = "RANK",
    .world_size = "WORLD_SIZE",
    .local_rank = "LOCAL_RANK",
    .local_world_size = "LOCAL_WORLD_SIZE",
    .others = {"GROUP_RANK", "GROUP_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"}};

void RequireWholeTorchrun(const Variables& variables) {
  variables.Require({"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, kTorchrun.title,
                    kTorchrun.hint);
}

void RequireTorchrunAgrees(const Facts& facts, const Launch& launch) {
  const std::string& address = facts.ranks.master_addr;
  const auto& port = facts.ranks.master_port;
  if ((!address.empty() && address != launch.master_addr) || (port && *port != launch.master_port)) {
    throw UsageError("--master_addr and --master_port contradict torchrun's variables",
                     "leave them to torchrun; seen: " + launch.seen);
  }
}

std::optional<Launch> FromTorchrun(const Facts& facts) {
  const Variables variables = VariablesOf(facts, kTorchrun);
  if (!variables.Has("RANK") || !variables.Has("LOCAL_RANK")) return std::nullopt;
  RequireWholeTorchrun(variables);
  Launch launch = *RankLevel(facts, kTorchrun);
  const auto groups = variables.Number("GROUP_WORLD_SIZE", 1, kMaxRanks);
  launch.nnodes = groups.value_or(launch.nnodes);  // machines may have unequal numbers of ranks
  launch.node_rank = variables.Number("GROUP_RANK", 0, kMaxRanks).value_or(launch.node_rank);
  if (groups) RequireBelow(launch.node_rank, *groups, "GROUP_RANK", "GROUP_WORLD_SIZE", launch.seen);
  launch.master_addr = variables.Text("MASTER_ADDR");
  launch.master_port = *variables.Number("MASTER_PORT", 1, 65535);
  launch.agent_store = variables.Text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  RequireTorchrunAgrees(facts, launch);
  return launch;
}

std::optional<Launch> HalfSetTorchrun(const Facts& facts) {
  const Variables variables = VariablesOf(facts, kTorchrun);
  if (!variables.FirstSet({"RANK", "LOCAL_RANK", "WORLD_SIZE"}).empty()) RequireWholeTorchrun(variables);
  return std::nullopt;
}

// ---- Where rank 0 is -----------------------------------------------------------------------------------------------

// Rank 0 is where the flags say, or MASTER_ADDR and MASTER_PORT, or at the first machine of the variable `node_list`,
// if there is one, with `port`. Else it posts its address under a key of the variables `of_job`.
void SetMaster(const Facts& facts, const std::string& node_list, int port, const std::vector<std::string>& of_job,
               Launch& launch) {
  const Variables variables(facts.environment, {"MASTER_ADDR", "MASTER_PORT"});
  launch.master_addr = facts.ranks.master_addr.empty() ? variables.Text("MASTER_ADDR") : facts.ranks.master_addr;
  if (launch.master_addr.empty() && !node_list.empty()) launch.master_addr = FirstNode(variables.Text(node_list));
  const int otherwise = variables.Number("MASTER_PORT", 1, 65535).value_or(port);
  const bool is_known = !launch.master_addr.empty();
  launch.master_port = is_known ? static_cast<int>(facts.ranks.master_port.value_or(otherwise)) : 0;
  if (!is_known) launch.address_key = KeyOfRun(facts.environment, of_job);
}

// ---- Open MPI ------------------------------------------------------------------------------------------------------
// Open MPI's mpirun. Its variables do not tell where rank 0 is, which need not be the launching host. Without
// MASTER_ADDR rank 0 posts its address in the run directory. The mpirun of MPICH and Intel MPI is refused.

// Returns the node of this rank. mpirun distributes ranks over nodes in blocks (by slot) or round robin (by node).
// OMPI_COMM_WORLD_NODE_RANK is no help: it counts the processes of one node.
int NodeOfMpiRank(const Launch& launch) {
  const bool in_blocks = launch.rank % launch.local_world_size == launch.local_rank;
  return in_blocks ? launch.rank / launch.local_world_size : launch.rank % launch.nnodes;
}

std::optional<Launch> FromOpenMpi(const Facts& facts) {
  std::optional<Launch> launch = RankLevel(facts, {.title = "Open MPI",
                                                   .hint = "start with mpirun, or unset those that are set",
                                                   .rank = "OMPI_COMM_WORLD_RANK",
                                                   .world_size = "OMPI_COMM_WORLD_SIZE",
                                                   .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                                                   .local_world_size = "OMPI_COMM_WORLD_LOCAL_SIZE"});
  if (!launch) return launch;
  launch->node_rank = NodeOfMpiRank(*launch);
  SetMaster(facts, "", kDefaultMasterPort,
            {"OMPI_MCA_orte_precondition_transports", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}, *launch);
  if (launch->world_size == 1 && launch->master_addr.empty()) {
    launch->master_addr = Launch().master_addr;
    launch->address_key.clear();
  }
  return launch;
}

// The rank and the number of ranks that MPICH's or Intel MPI's mpirun, or Slurm's step for them, tells one of several.
std::optional<std::pair<std::string, std::string>> OtherMpisRank(const Variables& variables) {
  if (!variables.Has("PMI_RANK") || !variables.Has("PMI_SIZE") || variables.Text("PMI_SIZE") == "1") return {};
  return std::pair(variables.Text("PMI_RANK"), variables.Text("PMI_SIZE"));
}

std::optional<Launch> FromOtherMpi(const Facts& facts) {
  const Variables variables(facts.environment, {"PMI_RANK", "PMI_SIZE"});
  if (!OtherMpisRank(variables)) return std::nullopt;
  throw UsageError("this mpirun is not Open MPI's, and each of its processes would train alone: " + variables.Seen(),
                   "start with one of " + NamesOfLaunchers() +
                       ", or unset PMI_RANK and PMI_SIZE if a shell has them of an earlier start, or start with "
                       "--nproc_per_node, or give every process --rank, "
                       "--world_size, --master_addr and --master_port");
}

// ---- Slurm ---------------------------------------------------------------------------------------------------------
// A task of a Slurm step (srun). The shell of a bare sbatch also has SLURM_NTASKS and SLURM_PROCID, but no step. Slurm
// starts no other process there, so it counts as a machine alone.

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

int TasksOfNode(const Variables& variables, int node, int tasks, int nodes) {
  const std::string name = variables.FirstSet({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  const std::vector<int> counts = name.empty() ? std::vector<int>() : ExpandCounts(variables.Text(name));
  return static_cast<size_t>(node) < counts.size() ? counts[static_cast<size_t>(node)] : (tasks + nodes - 1) / nodes;
}

// With srun --gpus-per-task each task sees only its own GPU.
bool SeesItsOwnGpu(const Variables& variables, const Machine& machine) {
  return machine.gpus == 1 && !variables.FirstSet({"SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK"}).empty();
}

std::optional<Launch> FromSlurmStep(const Facts& facts) {
  const Variables variables(
      facts.environment,
      {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_TASKS",
       "SLURM_NTASKS", "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE",
       "SLURM_TASKS_PER_NODE", "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "MASTER_ADDR", "MASTER_PORT"});
  if (!IsOrdinaryStep(variables.Text("SLURM_STEP_ID")) || !variables.Has("SLURM_PROCID")) return std::nullopt;
  const std::string tasks_name = variables.FirstSet({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  const std::string nodes_name = variables.FirstSet({"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
  // MPICH's mpirun starts its processes below a step of one task for each machine, whose variables they have, too.
  const auto other = OtherMpisRank(variables);
  if (other && *other != std::pair(variables.Text("SLURM_PROCID"), variables.Text(tasks_name))) return std::nullopt;
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
    launch = NodeLevel(facts, seen, nodes, node, ProcessesPerNode(facts, "", ""), "", 0);
  } else {
    launch.seen = seen;
    launch.rank = task;
    launch.world_size = tasks;
    launch.nnodes = nodes;
    launch.node_rank = node;
    launch.local_rank = *variables.Number("SLURM_LOCALID", 0, kMaxRanks);
    launch.local_world_size = TasksOfNode(variables, node, tasks, nodes);
    RequireBelow(launch.local_rank, launch.local_world_size, "SLURM_LOCALID", "the tasks of this node", seen);
    if (SeesItsOwnGpu(variables, facts.machine)) launch.gpu = 0;
    RequireSameProcesses(facts, launch, "srun");
  }
  const std::string list = variables.FirstSet({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  SetMaster(facts, list, PortOfStep(variables), {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}, launch);
  return launch;
}

// ---- A process for each machine ------------------------------------------------------------------------------------
// Environments that start one process per machine (or pod), which has to start the local ranks: Kubeflow Trainer,
// PyTorchJob and Volcano, AWS Batch.

// Returns the number of PET_NNODES, or another one where it is not set.
int PetNodes(const Variables& variables, int otherwise) {
  const std::string text = variables.Text("PET_NNODES");
  return text.empty() ? otherwise : FixedNodeCount(text, "PET_NNODES", variables.Seen());
}

int MasterPort(const Variables& variables, const std::string& name) {
  return variables.Number(name, 1, 65535).value_or(kDefaultMasterPort);
}

std::optional<Launch> FromKubeflowTrainer(const Facts& facts) {
  const Variables variables(
      facts.environment, {"PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT"});
  if (!variables.FirstSet({"RANK", "LOCAL_RANK"}).empty() ||
      variables.FirstSet({"PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR"}).empty()) {
    return std::nullopt;
  }
  const std::string hint = "set all of them, as Kubeflow Trainer does, or unset those that are set";
  if (!variables.FirstSet({"PET_NODE_RANK", "PET_MASTER_ADDR"}).empty()) {
    variables.Require({"PET_NNODES"}, "Kubeflow Trainer", hint);
  }
  const int nodes = PetNodes(variables, 1);
  if (nodes > 1) {
    const bool given = !facts.ranks.master_addr.empty();
    variables.Require({"PET_NODE_RANK", given ? "PET_NODE_RANK" : "PET_MASTER_ADDR"}, "Kubeflow Trainer", hint);
  }
  const int node = variables.Number("PET_NODE_RANK", 0, kMaxRanks).value_or(0);
  RequireBelow(node, nodes, "PET_NODE_RANK", "PET_NNODES", variables.Seen());
  const int processes = ProcessesPerNode(facts, variables.Text("PET_NPROC_PER_NODE"), "PET_NPROC_PER_NODE");
  return NodeLevel(facts, variables.Seen(), nodes, node, processes, variables.Text("PET_MASTER_ADDR"),
                   MasterPort(variables, "PET_MASTER_PORT"));
}

// RANK and WORLD_SIZE count pods. Operators that know of local ranks multiply WORLD_SIZE by their number, and set
// PET_NNODES to the number of pods.
std::optional<Launch> FromPods(const Facts& facts) {
  const Variables variables(facts.environment,
                            {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PET_NNODES", "PET_NPROC_PER_NODE"});
  if (!variables.Has("RANK") || !variables.FirstSet({"LOCAL_RANK", "LOCAL_WORLD_SIZE"}).empty()) return std::nullopt;
  const std::string hint =
      "RANK without LOCAL_RANK counts pods, as PyTorchJob and Volcano do: set all of them, or start with torchrun";
  variables.Require({"RANK", "WORLD_SIZE"}, "PyTorchJob", hint);
  const int world = *variables.Number("WORLD_SIZE", 1, kMaxRanks);
  const int processes = ProcessesPerNode(facts, variables.Text("PET_NPROC_PER_NODE"), "PET_NPROC_PER_NODE");
  const int nodes = PetNodes(variables, world);
  const auto per_pod = data::WholeNumber<int>(variables.Text("PET_NPROC_PER_NODE"));
  if (world != nodes && world != nodes * per_pod.value_or(processes)) {
    throw UsageError("WORLD_SIZE=" + std::to_string(world) + " is neither the number of pods, PET_NNODES=" +
                         std::to_string(nodes) + ", nor that of their ranks",
                     "seen: " + variables.Seen());
  }
  if (nodes > 1 && facts.ranks.master_addr.empty()) {
    variables.Require({"MASTER_ADDR"}, "PyTorchJob", hint);
  }
  const int node = *variables.Number("RANK", 0, kMaxRanks);
  RequireBelow(node, nodes, "RANK", variables.Has("PET_NNODES") ? "PET_NNODES" : "WORLD_SIZE", variables.Seen());
  std::string address = variables.Text("MASTER_ADDR");
  // Some operators set MASTER_ADDR to "localhost" in the first pod, where the other pods cannot reach it.
  if (node == 0 && IsLoopback(address)) address = facts.machine.address;
  return NodeLevel(facts, variables.Seen(), nodes, node, processes, address, MasterPort(variables, "MASTER_PORT"));
}

// The main node becomes node 0, and the others keep their order. The main node is not told its own address.
std::optional<Launch> FromAwsBatch(const Facts& facts) {
  const std::string index = "AWS_BATCH_JOB_NODE_INDEX";
  const std::string count = "AWS_BATCH_JOB_NUM_NODES";
  const std::string main_index = "AWS_BATCH_JOB_MAIN_NODE_INDEX";
  const std::string main_address = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS";
  const Variables variables(facts.environment, {index, count, main_index, main_address, "MASTER_PORT"});
  if (variables.FirstSet({index, count, main_address}).empty()) return std::nullopt;
  const std::string hint = "submit as a multi-node parallel job, or unset those that are set";
  variables.Require({index, count}, "AWS Batch", hint);
  const std::string seen = variables.Seen();
  const int nodes = *variables.Number(count, 1, kMaxRanks);
  const int given = *variables.Number(index, 0, kMaxRanks);
  const int main = variables.Number(main_index, 0, kMaxRanks).value_or(0);
  RequireBelow(given, nodes, index, count, seen);
  RequireBelow(main, nodes, main_index, count, seen);
  const bool is_main = given == main;
  if (!is_main && facts.ranks.master_addr.empty()) variables.Require({main_address}, "AWS Batch", hint);
  const int node = is_main ? 0 : given + (given < main ? 1 : 0);
  return NodeLevel(facts, seen, nodes, node, ProcessesPerNode(facts, "", ""),
                   is_main ? facts.machine.address : variables.Text(main_address),
                   MasterPort(variables, "MASTER_PORT"));
}

// ---- No launcher ---------------------------------------------------------------------------------------------------

std::optional<Launch> ThisMachine(const Facts& facts) {
  const int processes = facts.ranks.nproc_per_node.empty() ? 1 : ProcessesPerNode(facts, "", "");
  return NodeLevel(facts, /*seen=*/"", 1, 0, processes, "127.0.0.1", 0);
}

// Where it says which job this is, and how often it was started again. A scheduler tells, too, where another launcher
// within its job starts the ranks.
struct Attempts {
  const char* job = nullptr;    // the variable of the job's name, the same in all attempts; null: there is none
  const char* count = nullptr;  // that of the attempt's number; null: there is none
  int first = 0;                // the number of the first attempt
};

struct Row {
  // Returns a Launch if it recognises its variables, empty if not, and throws UsageError if they are set up wrongly.
  std::optional<Launch> (*detect)(const Facts&);
  Launcher launcher;
  Attempts attempts = {};
};

// A new launcher stands in front of those whose variables it leaves set. The third and the second last recognise only
// what is to be refused.
constexpr Row kLaunchers[] = {
    {FromFlags, {"flags", true}},
    {FromTorchrun,
     {"torchrun", true, /*is_outlived=*/true, /*sets_threads=*/true},
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {FromOpenMpi, {"openmpi", true}},
    {FromSlurmStep, {"slurm", true}, {"SLURM_JOB_ID", "SLURM_RESTART_COUNT"}},
    {FromKubeflowTrainer, {"kubeflow", true}},
    {FromPods, {"pytorchjob", true}},
    {FromAwsBatch, {"aws_batch", true}, {"AWS_BATCH_JOB_ID", "AWS_BATCH_JOB_ATTEMPT", 1}},
    {FromOtherMpi, {}},
    {HalfSetTorchrun, {}},
    {ThisMachine, {"single"}},
};

void AddAttempts(const Facts& facts, Launch& launch) {
  for (const auto& [detect, launcher, attempts] : kLaunchers) {
    if (attempts.job == nullptr) continue;
    if (attempts.count != nullptr) {
      launch.restart_count += Variables(facts.environment, {attempts.count})
                                  .Number(attempts.count, attempts.first, kMaxRanks)
                                  .value_or(attempts.first) -
                              attempts.first;
    }
    const std::string job = ValueOf(facts.environment, attempts.job);
    if (!job.empty()) launch.job = attempts.job + ("=" + job.substr(0, job.find('#')));  // without the node's number
  }
}

}  // namespace

std::string NamesOfLaunchers() {
  std::vector<std::string> names;
  for (const Row& row : kLaunchers) {
    if (row.launcher.is_one && row.detect != FromFlags) names.emplace_back(row.launcher.name);
  }
  return Joined(names);
}

Launch FirstMatch(const Facts& facts) {
  for (const Row& row : kLaunchers) {
    auto launch = row.detect(facts);
    if (!launch) continue;
    launch->launcher = row.launcher;
    AddAttempts(facts, *launch);
    return *std::move(launch);
  }
  throw std::logic_error("a process without a launcher is a launch of its own");
}

}  // namespace dtrain::launch
