// Exact evaluation: each validation sample counts exactly once, no batch is filled up, and sums are added over ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "data/pipeline/quarantine.h"
#include "trainer/config/config.h"
#include "trainer/control/control_plane.h"
#include "trainer/distributed/communicator.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task.h"

namespace dtrain::loop {

// Throws UsageError if --best_metric is neither `auto` nor one of the task's metrics. If it is one that needs
// confusions, the task counts them from now on.
void RequireBestMetric(const std::string& best_metric, tasks::Task& task);

// Called after each round of batches (one batch per rank) with the numbers of rounds done and of all rounds.
using EvaluationProgress = std::function<void(int64_t done, int64_t total)>;

// A collective. Each rank evaluates its batches of --batch_size samples (or --max_tokens tokens); see SplitBatches. Bad
// records are left out and added to `quarantine`. Afterwards the model is in training mode again. Returns empty if all
// ranks have agreed to stop, each after the same round. The control plane takes `steps_done` as the position of this
// rank. The caller fills in step and epoch of the result. Throws DataError if no record could be read, or too many are
// bad.
std::optional<report::ValPoint> Evaluate(tasks::Task& task, const tasks::DataSplit& split, const config::Config& config,
                                         distributed::Communicator& communicator, control::ControlPlane& control,
                                         int64_t steps_done, data::Quarantine& quarantine,
                                         const EvaluationProgress& progress = nullptr);

}  // namespace dtrain::loop
