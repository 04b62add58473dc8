// Chooses the task and the model that a configuration means, so that programs and modes need not name task classes.
#pragma once

#include <memory>

#include "models/image_model.h"
#include "trainer/config/config.h"
#include "trainer/tasks/task.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::loop {

// Makes a task for training: its model is on `device`, with weights drawn from --seed, and frozen as --freeze says.
// `num_classes` is that of the data (DataSets); `shard` is the rank, in training. Throws UsageError for flags that the
// task does not use.
std::unique_ptr<Task> MakeTask(const config::Config& config, int64_t num_classes, at::Device device, int64_t shard = 0);

// Makes an image model with trained weights.
std::shared_ptr<models::ImageModel> MakeInferenceModel(const config::Config& config, const TrainedWeights& weights,
                                                       at::Device device);

// Makes a task with a trained model.
std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const TrainedWeights& weights, at::Device device);

}  // namespace dtrain::loop
