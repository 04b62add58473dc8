// Environments that start one process per machine (or pod), which has to start the local ranks: Kubeflow Trainer,
// PyTorchJob and Volcano, AWS Batch.
#include "data/whole_number.h"
#include "trainer/errors.h"
#include "trainer/launch/detectors.h"
#include "trainer/launch/local_address.h"

namespace dtrain::launch {
namespace {

// Only torchrun's rendezvous can change the number of machines. Without torchrun it must be a single number.
int FixedNodeCount(const Variables& variables, const std::string& name) {
  const std::string text = variables.Text(name);
  const NodeCount nodes = ParseNodeCount(text, name, variables.Seen());
  if (nodes.minimum == nodes.maximum) return nodes.maximum;
  throw UsageError(name + "=" + text + ": a number of machines that may change needs torchrun",
                   "start with torchrun --no-python dtrain_main …, or set one number; seen: " + variables.Seen());
}

int PortOr(const Variables& variables, const std::string& name, int otherwise) {
  return variables.Number(name, 1, 65535).value_or(otherwise);
}

}  // namespace

std::optional<Launch> FromKubeflowTrainer(const Facts& facts) {
  const Variables variables(
      facts.environment, {"PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT"});
  const Variables others(facts.environment, {});
  if (!others.FirstSet({"RANK", "LOCAL_RANK"}).empty() ||
      variables.FirstSet({"PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR"}).empty()) {
    return std::nullopt;
  }
  const std::string hint = "set all of them, as Kubeflow Trainer does, or unset those that are set";
  if (!variables.FirstSet({"PET_NODE_RANK", "PET_MASTER_ADDR"}).empty()) {
    variables.Require({"PET_NNODES"}, "Kubeflow Trainer", hint);
  }
  const int nodes = variables.Has("PET_NNODES") ? FixedNodeCount(variables, "PET_NNODES") : 1;
  if (nodes > 1) {
    const bool given = !facts.ranks.master_addr.empty();
    variables.Require({"PET_NODE_RANK", given ? "PET_NODE_RANK" : "PET_MASTER_ADDR"}, "Kubeflow Trainer", hint);
  }
  const int node = variables.Number("PET_NODE_RANK", 0, kMaxRanks).value_or(0);
  RequireBelow(node, nodes, "PET_NODE_RANK", "PET_NNODES", variables.Seen());
  const int processes = ProcessesPerNode(facts, variables.Text("PET_NPROC_PER_NODE"), "PET_NPROC_PER_NODE");
  Launch launch = NodeLevel(facts, "kubeflow", nodes, node, processes, variables.Text("PET_MASTER_ADDR"),
                            PortOr(variables, "PET_MASTER_PORT", kDefaultMasterPort));
  launch.seen = variables.Seen();
  return launch;
}

// RANK and WORLD_SIZE count pods. Operators that know of local ranks multiply WORLD_SIZE by their number, and set
// PET_NNODES to the number of pods.
std::optional<Launch> FromPods(const Facts& facts) {
  const Variables variables(facts.environment,
                            {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PET_NNODES", "PET_NPROC_PER_NODE"});
  const Variables torchrun(facts.environment, {});
  if (!variables.Has("RANK") || !torchrun.FirstSet({"LOCAL_RANK", "LOCAL_WORLD_SIZE"}).empty()) return std::nullopt;
  const std::string hint =
      "RANK without LOCAL_RANK counts pods, as PyTorchJob and Volcano do: set all of them, or start with torchrun";
  variables.Require({"RANK", "WORLD_SIZE"}, "PyTorchJob", hint);
  const int world = *variables.Number("WORLD_SIZE", 1, kMaxRanks);
  const int processes = ProcessesPerNode(facts, variables.Text("PET_NPROC_PER_NODE"), "PET_NPROC_PER_NODE");
  const int nodes = variables.Has("PET_NNODES") ? FixedNodeCount(variables, "PET_NNODES") : world;
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
  Launch launch = NodeLevel(facts, "pytorchjob", nodes, node, processes, address,
                            PortOr(variables, "MASTER_PORT", kDefaultMasterPort));
  launch.seen = variables.Seen();
  return launch;
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
  Launch launch = NodeLevel(facts, "aws_batch", nodes, node, ProcessesPerNode(facts, "", ""),
                            is_main ? facts.machine.address : variables.Text(main_address),
                            PortOr(variables, "MASTER_PORT", kDefaultMasterPort));
  launch.seen = seen;
  return launch;
}

}  // namespace dtrain::launch
