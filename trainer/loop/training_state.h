// What a checkpoint holds besides tensors, and how both get into it and out again.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include <torch/nn/module.h>

#include "trainer/checkpoint/store.h"
#include "trainer/config/config.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/loop/data_sets.h"
#include "trainer/loop/plan.h"
#include "trainer/optim/optimizer.h"
#include "trainer/report/points.h"

namespace dtrain::loop {

// The part of a run that changes while it runs. Random numbers need no place here: they are functions of the seed and
// of the sample, or of the step (task_seed.h).
struct Progress {
  int64_t step = 0;              // steps done
  double interval_loss_sum = 0;  // since the last logged line
  double interval_weight = 0;
  double last_train_loss = 0;                  // of the last logged line; NaN: none of its steps had a finite one
  std::optional<report::ValPoint> validation;  // the last one
  std::optional<report::ValPoint> best;        // by its first metric
  distributed::BucketLayout bucket_layout;
};

nlohmann::json ToJson(const Progress& progress);
// Throws StorageError naming what is missing or of a wrong kind: a checkpoint may have right sums and a wrong content.
Progress ProgressFromJson(const nlohmann::json& json);

// In RunIdentity: the shape of a model of text, as its config.json has it.
inline constexpr char kModelShapeKey[] = "model_shape";

// What must be the same for a run to go on from a checkpoint: a flat object, keys named for people.
nlohmann::json RunIdentity(const config::Config& config, const Plan& plan, const DataSets& data);

// Throws UsageError naming the first key that differs (DataError if it is the data, StorageError where `saved` is
// none).
void RequireSameRun(const nlohmann::json& saved, const nlohmann::json& now, bool allow_dataset_change);

std::vector<optim::NamedTensor> ParametersOf(const torch::nn::Module& module);

// BatchNorm's means and variances; not its counters.
std::vector<at::Tensor> RunningStatistics(const torch::nn::Module& module);

// Parameters and buffers by torchvision's names; shared, not copied.
checkpoint::NamedTensors StateOf(const torch::nn::Module& module);

// Copies `saved` into the tensors of the same names. Throws StorageError naming what is missing or has another shape.
void CopyInto(const checkpoint::NamedTensors& destination, const checkpoint::NamedTensors& saved);

}  // namespace dtrain::loop
