// What dtrain_main does once it knows its rank: the modes of --mode, each a short story of its own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/start_record.h"
#include "trainer/control/control_plane.h"
#include "trainer/launch/launch.h"

namespace dtrain::loop {

// Where this process stands, kept up to date for the report of a failure.
struct RunStatus {
  std::string run_directory;                    // empty: none (yet)
  std::atomic<bool> has_run_directory = false;  // set after it: another thread may read it then
  std::atomic<bool> uses_nccl = false;
  bool meets_ranks = false;  // what goes wrong now may be the launcher's doing
  std::shared_ptr<distributed::ControlPlane> control;
  // Steps done; -1: not training (yet). The ranks of a node launcher keep it where their parent can read it.
  std::shared_ptr<int64_t> step = std::make_shared<int64_t>(-1);
};

struct RunContext {
  config::Config config;
  launch::Launch launch;
  int listen_fd = -1;  // rank 0's store, where the node launcher opened its socket
  RunStatus* status = nullptr;
  config::Start start;             // for config.json
  std::vector<std::string> notes;  // to be said by rank 0, once there is a log
};

// Prints the plan and checks what can be checked without the other ranks.
void DryRun(const RunContext& context);

// These meet the other ranks first.
void Train(const RunContext& context);
void EvaluateOnly(const RunContext& context);

// One rank only.
void Predict(const RunContext& context);
void Export(const RunContext& context);

}  // namespace dtrain::loop
