// The one place that knows which task a configuration means: programs and modes name no task class.
#pragma once

#include <memory>

#include "models/image_model.h"
#include "trainer/config/config.h"
#include "trainer/tasks/task.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::loop {

// For training: with a model whose weights are drawn from --seed, on `device`, parts of it frozen as --freeze says.
// `num_classes` of the data; `shard` is the rank, when training.
std::unique_ptr<Task> MakeTask(const config::Config& config, int64_t num_classes, at::Device device, int64_t shard = 0);

// A model of images with trained weights.
std::shared_ptr<models::ImageModel> MakeInferenceModel(const config::Config& config, const TrainedWeights& weights,
                                                       at::Device device);

// With --fused_norm the model's training steps use the kernels of `device`, on which it is. Throws UsageError on the
// CPU, which has none.
void UseFusedNorms(const config::ModelConfig& config, at::Device device, torch::nn::Module& module);

// With a trained model.
std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const TrainedWeights& weights, at::Device device);

}  // namespace dtrain::loop
