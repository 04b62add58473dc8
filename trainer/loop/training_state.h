// The part of a checkpoint other than tensors, as JSON (state.json): the progress of the run, and its identity.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "trainer/checkpoint/store.h"
#include "trainer/config/config.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/loop/plan.h"
#include "trainer/report/points.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

// The losses of the steps so far, for SpikeWatch.
struct LossStatistics {
  int64_t count = 0;
  double mean = 0, variance = 0;
};

// The state of a run that changes with every step. The state of random generators is not part of it: all random numbers
// are functions of the seed and the sample, or of the seed and the step (SeedTask).
struct Progress {
  int64_t step = 0;                             // steps done
  std::map<std::string, double> interval = {};  // LogInterval's sums since the last logged line, and `steps`
  double last_train_loss = 0;                   // of the last logged line; NaN if none of its steps had a finite loss
  std::optional<report::ValPoint> validation = {};  // the last evaluation
  std::optional<report::ValPoint> best = {};        // the best evaluation, by its first metric
  distributed::BucketLayout bucket_layout = {};     // empty before the first step
  LossStatistics losses = {};                       // of all steps, with --spike_factor
};

nlohmann::json ToJson(const Progress& progress);
// Throws StorageError if a value is missing or of a wrong type. A right checksum does not exclude that.
Progress ProgressFromJson(const nlohmann::json& json);

// Returns the settings that must be equal for a run to resume from a checkpoint, as a flat object whose keys people can
// read. The key of an optional setting that is off (val_fraction, freeze, elastic_shards) is missing.
nlohmann::json RunIdentity(const config::Config& config, const Plan& plan, const tasks::DataSets& data);

// The key of --elastic_shards among them.
inline constexpr char kShardsKey[] = "elastic_shards";

// Throws UsageError naming the first key that differs, DataError if it concerns the data (and `allow_dataset_change` is
// false), StorageError if `saved` is not an object.
void RequireSameRun(const nlohmann::json& saved, const nlohmann::json& now, bool allow_dataset_change);

}  // namespace dtrain::loop
