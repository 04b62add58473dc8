// What a checkpoint holds besides tensors, and how both get into it and out again.
#pragma once

#include <cstdint>
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

// The part of a run that changes while it runs. Random numbers need no place here: they are functions of the seed and
// of the sample, or of the step (task_seed.h).
struct Progress {
  int64_t step = 0;              // steps done
  double interval_loss_sum = 0;  // since the last logged line
  double interval_weight = 0;
  double interval_hits = 0;
  double last_train_loss = 0;                  // of the last logged line; NaN: none of its steps had a finite one
  std::optional<report::ValPoint> validation;  // the last one
  std::optional<report::ValPoint> best;        // by its first metric
  distributed::BucketLayout bucket_layout;
};

nlohmann::json ToJson(const Progress& progress);
// Throws StorageError naming what is missing or of a wrong kind: a checkpoint may have right sums and a wrong content.
Progress ProgressFromJson(const nlohmann::json& json);

// What must be the same for a run to go on from a checkpoint: a flat object, keys named for people. What is there where
// a flag was given is missing elsewhere.
nlohmann::json RunIdentity(const config::Config& config, const Plan& plan, const DataSets& data);

// Throws UsageError naming the first key that differs (DataError if it is the data, StorageError where `saved` is
// none).
void RequireSameRun(const nlohmann::json& saved, const nlohmann::json& now, bool allow_dataset_change);

}  // namespace dtrain::loop
