// The objects that the training loop and its parts work with. Train (trainer/modes/train_run.cc) makes them.
#pragma once

#include <c10/core/Device.h>

#include <nlohmann/json.hpp>

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
  StepGraph* step_graph;  // null: steps run unrecorded
  nlohmann::json kept;    // stored in every checkpoint's state.json beside the progress
};

}  // namespace dtrain::loop
