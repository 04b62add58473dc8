// The bad records of one split: listed in the run directory, logged, and counted over all ranks.
#pragma once

#include <filesystem>
#include <memory>

#include "data/pipeline/quarantine.h"
#include "trainer/config/config.h"
#include "trainer/control/control_plane.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

// The budget is that of the whole run: if all ranks together exceed it, the control plane ends them all with exit code
// 3; the rank that met the last record may throw DataError before that. `path` is QuarantineOptions::path. `fate` says
// in the log what happens to a bad record ("replaced"). `fate` and `control` must outlive the quarantine.
std::unique_ptr<data::Quarantine> MakeRunQuarantine(const tasks::DataSplit& split, const config::DataConfig& config,
                                                    const std::filesystem::path& path, const char* fate,
                                                    control::ControlPlane& control);

}  // namespace dtrain::loop
