// The run directory's name has a time in it: rank 0 chooses, the others are told.
#include "trainer/loop/session.h"

#include <filesystem>

#include "trainer/config/config_json.h"
#include "trainer/distributed/distinct_gpus.h"
#include "trainer/distributed/nccl_environment.h"
#include "trainer/report/error_report.h"
#include "trainer/report/log.h"
#include "trainer/report/run_directory.h"

namespace dtrain::loop {
namespace {

// What may differ between the ranks of one run.
constexpr const char* kOwnToEachRank[] = {"rank",        "local_rank",     "run_dir", "master_addr",
                                          "master_port", "nproc_per_node", "workers", "data_dir"};

// The directory is this job's alone from here on, and what an earlier attempt failed with is history.
void TakeRunDirectory(const report::RunDirectory& files, std::optional<checkpoint::RunLock>& lock) {
  report::PrepareRunDirectory(files);
  lock.emplace(files.root);
  report::RemoveErrorFiles(files.root);
}

}  // namespace

Session::Session(const RunContext& run_context)
    : context(run_context),
      place(distributed::ChooseDevice(run_context.launch, run_context.config.ranks.backend)),
      device(place.device),
      run_directory(run_context.config.run.dir) {
  const launch::Launch& launch = context.launch;
  distributed::UseShareOfCores(launch);
  const bool training = context.config.run.mode == "train";
  if (training && run_directory.empty()) {
    run_directory = report::DefaultRunDirectory(context.config.model.name, std::time(nullptr)).string();
  }
  // Asked for by name, NCCL is used by one rank, too: what several do can then be tried on one GPU.
  if (launch.world_size > 1 || context.config.ranks.backend == "nccl") {
    rendezvous =
        std::make_unique<distributed::Rendezvous>(launch, context.listen_fd, context.config.ranks.init_timeout_seconds);
  }
  if (training && launch.rank == 0) TakeRunDirectory(report::RunDirectory(run_directory), lock);
  if (rendezvous) run_directory = rendezvous->ShareFromFirst("run_directory", run_directory);
  context.status->run_directory = run_directory;
  const bool logs_to_files = launch.world_size > 1 && training;
  report::InitializeLogging(launch.rank, launch.world_size,
                            logs_to_files ? report::RunDirectory(run_directory).logs.string() : "");
  if (lock && !lock->warning().empty()) report::LogWarning(lock->warning());
  const std::string& precision = context.config.precision.name;
  if (device.is_cpu() && precision != "fp32" && launch.rank == 0) {
    report::LogWarning(precision == "tf32" ? "--precision=tf32 is fp32 on a CPU"
                                           : "--precision=" + precision + " is for GPUs: a CPU works, but slowly");
  }
}

void Session::Connect(const nlohmann::json& identity) {
  if (!rendezvous) {
    communicator = std::make_unique<distributed::Communicator>();
    return;
  }
  nlohmann::json common = config::ToJson(context.config);
  for (const char* key : kOwnToEachRank) common.erase(key);
  common.update(identity);
  common["build"] = DTRAIN_VERSION;
  rendezvous->Handshake(common.dump());
  if (device.is_cuda()) {
    distributed::RequireDistinctGpus(*rendezvous, place.pci_id, distributed::MachineId());
    const std::string dumps = run_directory.empty() ? "" : report::RunDirectory(run_directory).logs.string();
    distributed::Apply(distributed::NcclEnvironment(dumps));
  }
  communicator =
      std::make_unique<distributed::Communicator>(*rendezvous, device, context.config.ranks.comm_timeout_seconds);
}

void Session::Leave() {
  if (rendezvous) rendezvous->Leave();
}

}  // namespace dtrain::loop
