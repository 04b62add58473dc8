// Each rank posts its GPU; rank 0 compares them and posts the result. So every rank ends with the same message.
#include "trainer/distributed/distinct_gpus.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::distributed {
namespace {

constexpr const char* kShareHint =
    "start at most one rank per GPU; CUDA_VISIBLE_DEVICES must name all GPUs of the machine, or a different one for "
    "each rank";

std::string KeyOf(int rank) { return "gpu/" + std::to_string(rank); }

}  // namespace

std::string MachineId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id.empty() ? report::HostName() : id;
}

void RequireDistinctGpus(Rendezvous& rendezvous, const device::Gpu& gpu, const std::string& machine) {
  const launch::Launch& launch = rendezvous.launch();
  const nlohmann::json mine = {
      {"host", report::HostName()}, {"machine", machine}, {"pci_id", gpu.pci_id}, {"uuid", gpu.uuid}};
  rendezvous.store()->set(KeyOf(launch.rank), mine.dump());
  std::string problem;
  if (launch.rank == 0) {
    std::vector<device::RankGpu> ranks;
    for (int rank = 0; rank < launch.world_size; ++rank) {
      const auto text = rendezvous.store()->get_to_str(KeyOf(rank));
      const auto posted = nlohmann::json::parse(text);
      ranks.push_back({rank, posted.at("host"), posted.at("machine"), posted.at("pci_id"), posted.at("uuid")});
    }
    problem = device::SharedGpu(ranks);
  }
  problem = rendezvous.ShareFromFirst("shared_gpu", problem);
  if (problem.empty()) return;
  rendezvous.control()->Leave();  // keeps rank 0's store alive until all ranks have read the result
  throw UsageError(problem, kShareHint);
}

}  // namespace dtrain::distributed
