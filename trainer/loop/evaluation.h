// Exact evaluation: every validation sample once, unpadded, sums added over ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/pipeline/quarantine.h"
#include "trainer/config/config.h"
#include "trainer/control/control_plane.h"
#include "trainer/distributed/communicator.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task.h"

namespace dtrain::loop {

// Hears, after each of its batches, how many of this rank's are done, and of how many.
using EvaluationProgress = std::function<void(int64_t done, int64_t total)>;

// A collective. Bad records are left out and go to `quarantine`. --batch_size per rank; at most `limit_steps` batches
// (0: all). The model is in training mode again afterwards. nullopt: all ranks have agreed to stop, after the same
// batch. `steps_done` is for the control plane. Throws DataError where no record could be read.
std::optional<report::ValPoint> Evaluate(Task& task, const DataSplit& split, const config::Config& config,
                                         distributed::Communicator& communicator, distributed::ControlPlane& control,
                                         int64_t steps_done, data::Quarantine& quarantine,
                                         const EvaluationProgress& progress = nullptr);

}  // namespace dtrain::loop
