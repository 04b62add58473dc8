// What dtrain_main does once it knows its rank: the modes of --mode, each a short story of its own.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "trainer/config/config.h"
#include "trainer/distributed/control_plane.h"
#include "trainer/launch/launch.h"

namespace dtrain::loop {

// Where this process stands, kept up to date for the report of a failure.
struct RunStatus {
  std::string run_directory;                    // empty: none (yet)
  std::atomic<bool> has_run_directory = false;  // set after it: another thread may read it then
  int64_t step = -1;                            // -1: not training (yet)
  std::shared_ptr<distributed::ControlPlane> control;
};

struct RunContext {
  config::Config config;
  launch::Launch launch;
  int listen_fd = -1;  // rank 0's store, where the node launcher opened its socket
  RunStatus* status = nullptr;
};

// Prints the plan and checks what can be checked without the other ranks.
void DryRun(const RunContext& context);

// These meet the other ranks first.
void Train(const RunContext& context);
void EvaluateOnly(const RunContext& context);

// One rank only.
void Predict(const RunContext& context);

}  // namespace dtrain::loop
