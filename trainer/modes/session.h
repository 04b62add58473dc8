// The beginning of every mode that runs on several ranks: device, threads, logging, and the connections to the others.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "trainer/checkpoint/run_lock.h"
#include "trainer/control/control_plane.h"
#include "trainer/device/device.h"
#include "trainer/distributed/communicator.h"
#include "trainer/distributed/rendezvous.h"
#include "trainer/modes/run.h"
#include "trainer/report/run_directory.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::modes {

inline constexpr char kJobKey[] = "job";  // in config.json, of the start: Launch::job

struct Session {
  // In a run of several ranks, finds rank 0 and learns the run directory from it. In training rank 0 locks the
  // directory before it tells the others, so that no rank writes into the directory of another job. Throws StorageError
  // if another job holds it, UsageError if the device cannot be used, and the errors of Rendezvous.
  explicit Session(const RunContext& context);

  // A collective. Opens the data, on rank 0 first, which makes the indexes that are missing. The other ranks find these
  // on the disk, or are sent those that could not be kept there. `known`: see TaskKind::OpenData, whose errors it
  // throws.
  tasks::DataSets OpenData(const config::Config& config, const data::Classes& known) const;

  // A collective. Waits for all ranks, checks that `identity`, `config` and build are the same on all of them, and
  // makes the communicator. Throws as ControlPlane::WaitForAll does.
  void Connect(const config::Config& config, const nlohmann::json& identity);

  // The orderly end of a run: returns when all ranks have called it.
  void Leave() { control->Leave(); }

  const RunContext& context;
  device::RankDevice place;
  at::Device device;
  std::string run_directory;                // may be empty outside training
  bool restarted = false;                   // rank 0: a launcher started the run again after an earlier attempt
  std::optional<checkpoint::RunLock> lock;  // rank 0 in training; otherwise empty
  std::unique_ptr<distributed::Rendezvous> rendezvous;  // null in a run of one rank without --backend=nccl
  std::shared_ptr<control::ControlPlane> control;
  std::unique_ptr<distributed::Communicator> communicator;  // null until Connect
};

}  // namespace dtrain::modes
