// The bad records of one split: listed in the run directory, told to the log, and counted over all ranks.
#pragma once

#include <filesystem>
#include <memory>

#include "data/pipeline/quarantine.h"
#include "trainer/config/config.h"
#include "trainer/control/control_plane.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

// The budget is the run's: where all ranks together are over it, the control plane ends them all with exit code 3, and
// the rank that met the last record may throw DataError first. `path`: as QuarantineOptions has it. `control` outlives
// the quarantine. `fate`: what becomes of a bad record, for the log.
std::unique_ptr<data::Quarantine> MakeRunQuarantine(const DataSplit& split, const config::DataConfig& config,
                                                    const std::filesystem::path& path, const char* fate,
                                                    distributed::ControlPlane& control);

}  // namespace dtrain::loop
