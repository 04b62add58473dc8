// What a run opens before its first step, in the order in which its mistakes are found: weights, data, plan, task.
// Training, evaluation and dry run open it here and take as much as they need, so that a dry run says what a run would.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/launch/launch.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/plan.h"
#include "trainer/loop/step_graph.h"
#include "trainer/modes/session.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/split_batches.h"
#include "trainer/tasks/task.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::modes {

struct Opened {
  weights::TrainedWeights weights;               // of other modes than train
  tasks::DataSets data;                          // of --mode=predict only the classes
  std::unique_ptr<tasks::SplitBatches> batches;  // of a training; otherwise null
  loop::Plan plan;                               // likewise
  std::unique_ptr<tasks::Task> task;             // null until MakeTask
  loop::Judgement judgement;                     // of a training, from MakeTask on
};

// Reads the weights of a trained model, opens the data, and plans a training. With a session this is a collective: see
// Session::OpenData. Throws as ReadInferenceWeights, TaskKind::OpenData and MakePlan do, and UsageError if a training
// could not learn anything: its average of the weights would never be updated, it has no validation split for early
// stopping, or the kind of the task finds so.
Opened Open(const config::Config& config, const launch::Launch& launch, const Session* session);

// Makes the task on `device`, the meta device for its shapes alone. Throws UsageError for a --best_metric or
// --class_weights that does not fit, and as TaskKind::MakeTask and MakeInferenceTask do.
void MakeTask(const config::Config& config, at::Device device, Opened& opened);

// The number of samples of all validation sets.
int64_t ValidationSamples(const tasks::DataSets& data);

// Returns the reason why the steps of a training on `device` cannot be recorded; empty if they can.
std::string WhyNotRecorded(const Opened& run, at::Device device);

}  // namespace dtrain::modes
