// What a training run resumes from, and the check that it is the same run. A dry run asks the same, but for the best
// weights, and for checkpoints on other machines.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "trainer/checkpoint/store.h"
#include "trainer/config/config.h"
#include "trainer/loop/training_state.h"
#include "trainer/modes/run.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::modes {

struct Session;  // session.h

// Whether this rank's own --run_dir is rank 0's, or it has none. A collective.
bool SharesRunDirectory(const Session& session);

// Finds and reads the checkpoint to resume from, as --resume says; empty for a fresh run. A `restarted` run prefers the
// checkpoints that it has saved itself, whatever --resume says, if they are newer. Throws StorageError.
std::optional<checkpoint::Snapshot> FindCheckpoint(const std::string& resume, bool restarted,
                                                   const checkpoint::Store& store);

// The same for --resume=auto and several ranks. With run directories on disks of the machines' own, a job that is
// started again may have rank 0 on another machine than before: the newest valid checkpoint that any rank finds in its
// own --run_dir counts, and its holder sends it to rank 0.
//
// A collective. `is_shared` is what SharesRunDirectory says. `store` is that of rank 0's run directory, null on the
// other ranks, which get nothing. Throws StorageError if there are checkpoints, but none is valid, or if rank 0 cannot
// write what it receives.
std::optional<checkpoint::Snapshot> FindNewestOfRanks(const Session& session, bool is_shared, checkpoint::Store* store);

// The best weights lie beside the checkpoints, in `model_best`. Returns why they are lost, in a sentence for people, if
// they are of another step than the state.json of a checkpoint says, since the run goes back, has another directory, or
// could not write them, or if the file is another run's; empty if they are not, or are those of the checkpoint itself,
// which are written again.
std::string WhyBestIsLost(const std::filesystem::path& model_best, bool is_of_another, const nlohmann::json& state);

// Returns why the best validation of a checkpoint does not count any more, in a sentence for people: another set of
// --val_split decides now. Empty if it counts.
std::string WhyBestDoesNotCount(const nlohmann::json& state, const config::DataConfig& data);

// A run keeps its held-out samples, and photographs as it began to use them: takes --split_seed and --exif_orientation,
// unless they were given, from the run whose state.json is given. Adds them to a state of a version without them.
void KeepSamples(nlohmann::json& state, config::Config& config);

// Returns the configuration with which the run of `state`, its state.json, goes on: what KeepSamples makes of that of
// `context`, with the batch sizes that keep the run's global batch, or its shards, if the command says no others. Rank
// 0 logs these. Null is the state of a fresh run. Throws UsageError if there are more ranks than shards.
config::Config ConfigOfRun(const RunContext& context, nlohmann::json& state);

// Returns the part of state.json that stays the same throughout the run. `config` is that of ConfigOfRun.
nlohmann::json KeptState(const RunContext& context, const config::Config& config, const loop::Plan& plan,
                         const tasks::DataSets& data);

// Adds what the weights of a run tell of its data and its task.
void AddDataAndTask(checkpoint::Metadata& metadata, const config::Config& config, const tasks::DataSets& data);

// Returns the progress in a checkpoint's state.json. Throws if the checkpoint belongs to another run than `kept`
// (see RequireSameRun) or is damaged. If another version has written it, the hint names that.
loop::Progress ProgressOf(const nlohmann::json& state, const nlohmann::json& kept, bool allow_dataset_change);

}  // namespace dtrain::modes
