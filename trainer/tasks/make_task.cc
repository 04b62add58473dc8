#include "trainer/tasks/make_task.h"

#include "models/registry.h"
#include "trainer/errors.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/masked_lm_task.h"
#include "trainer/weights/freeze.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/roberta_model.h"

namespace dtrain::loop {
namespace {

// Refuses flags that text models do not use, since the user would think that they had an effect.
void RequireNoOptionsOfImages(const config::Config& config) {
  if (config.optimizer.loss != "ce") {
    throw UsageError("--loss=" + config.optimizer.loss + " is for images, not for --model=" + config.model.name,
                     "leave it out");
  }
  if (config.model.bn_eps || config.model.bn_momentum) {
    throw UsageError("--model=" + config.model.name + " has no batch normalisation",
                     "leave out --bn_eps and --bn_momentum");
  }
}

}  // namespace

std::unique_ptr<Task> MakeTask(const config::Config& config, int64_t num_classes, at::Device device, int64_t shard) {
  if (models::IsRoberta(config.model.name)) {
    RequireNoOptionsOfImages(config);
    const auto options = RobertaOptionsOf(config, num_classes, ReadOutline(config.model.init_weights));
    auto model = MakeRoberta(options, config.batch.seed, device);
    if (config.precision.memory_efficient_fp16) model->to(at::kHalf);
    Freeze(config.model, *model);
    return std::make_unique<MaskedLmTask>(std::move(model), config, device);
  }
  auto model = MakeModel(config, num_classes, device);
  Freeze(config.model, *model);
  return std::make_unique<ImageTask>(std::move(model), config, device, shard);
}

std::shared_ptr<models::ImageModel> MakeInferenceModel(const config::Config& config, const TrainedWeights& weights,
                                                       at::Device device) {
  auto model = MakeModel(config, NumClassesFor(config, weights), device);
  ApplyInitialWeights(weights.tensors, config.model, *model);
  return model;
}

std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const TrainedWeights& weights,
                                        at::Device device) {
  if (!models::IsRoberta(config.model.name)) {
    return std::make_unique<ImageTask>(MakeInferenceModel(config, weights, device), config, device);
  }
  const auto options = RobertaOptionsOf(config, /*vocabulary=*/0, OutlineOf(weights.tensors, weights.model_config));
  auto task = std::make_unique<MaskedLmTask>(MakeRoberta(options, config.batch.seed, device), config, device);
  ApplyInitialWeights(weights.tensors, config.model, task->module());
  return task;
}

}  // namespace dtrain::loop
