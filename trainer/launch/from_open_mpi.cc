// Open MPI's mpirun. Its variables do not tell where rank 0 is, which need not be the launching host. Without
// MASTER_ADDR rank 0 posts its address in the run directory. The mpirun of MPICH and Intel MPI is refused.
#include "trainer/errors.h"
#include "trainer/launch/address_file.h"
#include "trainer/launch/detectors.h"

namespace dtrain::launch {
namespace {

// Returns the node of this rank. mpirun distributes ranks over nodes in blocks (by slot) or round robin (by node).
// OMPI_COMM_WORLD_NODE_RANK is no help: it counts the processes of one node.
int NodeOf(const Launch& launch) {
  const bool in_blocks = launch.rank % launch.local_world_size == launch.local_rank;
  return in_blocks ? launch.rank / launch.local_world_size : launch.rank % launch.nnodes;
}

}  // namespace

std::optional<Launch> FromOpenMpi(const Facts& facts) {
  const Variables variables(facts.environment,
                            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  if (variables.FirstSet({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}).empty()) return std::nullopt;
  variables.Require({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}, "Open MPI",
                    "start with mpirun, or unset those that are set");
  Launch launch = RankLevel(
      facts, "openmpi", variables,
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  RequireSameProcesses(facts, launch, "mpirun");
  launch.node_rank = NodeOf(launch);

  const auto port = variables.Number("MASTER_PORT", 1, 65535);
  launch.master_addr = facts.ranks.master_addr.empty() ? variables.Text("MASTER_ADDR") : facts.ranks.master_addr;
  if (!launch.master_addr.empty()) {
    launch.master_port = static_cast<int>(facts.ranks.master_port.value_or(port.value_or(kDefaultMasterPort)));
  } else if (launch.world_size > 1) {
    launch.address_key = KeyOfRun(
        facts.environment, {"OMPI_MCA_orte_precondition_transports", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  } else {
    launch.master_addr = "127.0.0.1";
  }
  return launch;
}

std::optional<Launch> FromOtherMpi(const Facts& facts) {
  const Variables variables(facts.environment, {"PMI_RANK", "PMI_SIZE"});
  if (!variables.Has("PMI_RANK") || !variables.Has("PMI_SIZE") || variables.Text("PMI_SIZE") == "1") {
    return std::nullopt;
  }
  throw UsageError("this mpirun is not Open MPI's, and each of its processes would train alone: " + variables.Seen(),
                   "start with Open MPI's mpirun, srun, torchrun or --nproc_per_node, or give every process --rank, "
                   "--world_size, --master_addr and --master_port");
}

}  // namespace dtrain::launch
