// Exact evaluation: every validation sample once, unpadded, sums added over ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "data/pipeline/quarantine.h"
#include "trainer/config/config.h"
#include "trainer/control/control_plane.h"
#include "trainer/distributed/communicator.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task.h"

namespace dtrain::loop {

// A collective. Bad records are left out and go to `quarantine`. --batch_size per rank; at most `limit_steps` batches
// (0: all). The model is in training mode again afterwards. nullopt: all ranks have agreed to stop, after the same
// batch. `steps_done` is for the control plane. Throws DataError where no record could be read.
std::optional<report::ValPoint> Evaluate(Task& task, const DataSplit& split, const config::Config& config,
                                         distributed::Communicator& communicator, distributed::ControlPlane& control,
                                         int64_t steps_done, data::Quarantine& quarantine);

}  // namespace dtrain::loop
