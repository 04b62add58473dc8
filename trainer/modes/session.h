// What every mode with ranks begins with: device, threads, logging, and the way to the other ranks.
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
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

struct Session {
  // Finds rank 0 (in a run of several ranks) and learns the run directory from it. When training, rank 0 takes that
  // directory first: no rank writes into one that belongs to another job. Throws StorageError where it does.
  explicit Session(const RunContext& context);

  // Opens the data: rank 0 first, so that it makes the indexes, if they are not there. The others find them made, or
  // are sent those that could not be kept. `known`: as OpenDataSets has it.
  DataSets OpenData(const data::Classes& known = {}) const;

  // Shakes hands with all ranks and connects them. `identity` and the configuration must be the same on all.
  void Connect(const nlohmann::json& identity);

  // The orderly end: returns when all ranks have come to it.
  void Leave() { control->Leave(); }

  const RunContext& context;
  distributed::RankDevice place;
  at::Device device;
  std::string run_directory;                            // may be empty outside of training
  bool restarted = false;                               // rank 0: by a launcher, after an earlier attempt
  std::optional<checkpoint::RunLock> lock;              // rank 0's, when training
  std::unique_ptr<distributed::Rendezvous> rendezvous;  // null in a run of one rank, but for --backend=nccl
  std::shared_ptr<distributed::ControlPlane> control;
  std::unique_ptr<distributed::Communicator> communicator;
};

}  // namespace dtrain::loop
