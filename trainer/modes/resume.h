// What a training run resumes from, and the check that it is the same run. A dry run asks the same.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "trainer/checkpoint/store.h"
#include "trainer/config/config.h"
#include "trainer/loop/training_state.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

// Finds and reads the checkpoint to resume from, as --resume says; empty for a fresh run. A `restarted` run prefers the
// checkpoints that it has saved itself, whatever --resume says, if they are newer. Throws StorageError.
std::optional<checkpoint::Snapshot> FindCheckpoint(const std::string& resume, bool restarted,
                                                   const checkpoint::Store& store);

// Returns the part of state.json that stays the same throughout the run.
nlohmann::json KeptState(const config::Config& config, const nlohmann::json& identity, const DataSets& data);

// Returns the progress in a checkpoint's state.json. Throws if the checkpoint belongs to another run than `kept`
// (see RequireSameRun) or is damaged.
Progress ProgressOf(const nlohmann::json& state, const nlohmann::json& kept, bool allow_dataset_change);

}  // namespace dtrain::loop
