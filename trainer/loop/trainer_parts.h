// The objects that the training loop and its parts work with. Train (trainer/modes/train_run.cc) makes them.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/pipeline/device_feed.h"
#include "trainer/checkpoint/store.h"
#include "trainer/config/config.h"
#include "trainer/control/control_plane.h"
#include "trainer/distributed/communicator.h"
#include "trainer/loop/plan.h"
#include "trainer/loop/reporter.h"
#include "trainer/loop/step_graph.h"
#include "trainer/loop/training_state.h"
#include "trainer/report/run_directory.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/split_batches.h"
#include "trainer/tasks/task.h"

namespace dtrain::loop {

// The last checkpoint, as a run resumes from it.
struct LastSave {
  Progress progress;                             // the same on all ranks
  std::optional<checkpoint::Snapshot> snapshot;  // on rank 0
};

// Everything referred to must outlive the trainer.
struct TrainerParts {
  const config::Config& config;
  const Plan& plan;
  const tasks::DataSets& data;
  const tasks::SplitBatches& train_batches;
  tasks::Task& task;
  distributed::Communicator& communicator;
  control::ControlPlane& control;
  Reporter& reporter;
  const report::RunDirectory& files;
  at::Device device;
  StepGraph* step_graph;                          // null: steps run unrecorded
  nlohmann::json kept;                            // stored in every checkpoint's state.json beside the progress
  std::function<LastSave()> read_last_save = {};  // a collective, for --on_spike=rewind
};

}  // namespace dtrain::loop
