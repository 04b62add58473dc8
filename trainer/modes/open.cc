#include "trainer/modes/open.h"

#include <optional>
#include <string>

#include "models/layers.h"
#include "trainer/errors.h"
#include "trainer/loop/evaluation.h"
#include "trainer/tasks/class_balance.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::modes {
namespace {

void RequireLearnable(const config::Config& config, const loop::Plan& plan, const tasks::DataSets& data) {
  if (config.run.stop_after_epochs_without_gain > 0 && !data.val) {
    throw UsageError("--stop_after_epochs_without_gain measures the gain on a validation split, but there is none",
                     "--val_fraction=0.1 makes one from a part of the training split");
  }
  const config::OptimizerConfig& optimizer = config.optimizer;
  if (optimizer.ema_decay != 0 && plan.total_steps < optimizer.ema_every) {
    throw UsageError("--ema_decay keeps an average that would never be updated: the run has " +
                         std::to_string(plan.total_steps) +
                         " steps, --ema_every=" + std::to_string(optimizer.ema_every),
                     "lower --ema_every, train longer, or leave out --ema_decay");
  }
  tasks::KindOf(config).RequireLearnable(config, plan.batch, data);
}

}  // namespace

Opened Open(const config::Config& config, const launch::Launch& launch, const Session* session) {
  const tasks::TaskKind& kind = tasks::KindOf(config);
  const bool trains = config.run.mode == "train";
  Opened opened;
  if (!trains) {
    opened.weights = weights::ReadInferenceWeights(config);
    opened.data.classes = kind.ClassesOf(config, opened.weights);
  }
  if (session != nullptr) {
    opened.data = session->OpenData(config, opened.data.classes);
  } else if (trains || config.run.mode == "eval") {
    opened.data = kind.OpenData(config, opened.data.classes, /*indexes=*/nullptr);
    tasks::LookThrough(opened.data, config);
  }
  if (!trains) return opened;
  const tasks::DataSplit& train = *opened.data.train;
  opened.batches = tasks::MakeTrainBatches(train, config, launch.world_size);
  opened.plan = loop::MakePlan(config, train.source->size(), launch.world_size, opened.batches->units(),
                               opened.batches->units_per_step(), tasks::NumShards(train));
  RequireLearnable(config, opened.plan, opened.data);
  return opened;
}

void MakeTask(const config::Config& config, at::Device device, Opened& opened) {
  const tasks::TaskKind& kind = tasks::KindOf(config);
  std::optional<models::ShapesAlone> shapes;
  if (device.is_meta()) shapes.emplace();
  const bool trains = config.run.mode == "train";
  opened.task = trains ? kind.MakeTask(config, opened.data, device)
                       : kind.MakeInferenceTask(config, opened.weights, opened.data, device);
  loop::RequireBestMetric(config.run.best_metric, *opened.task);
  if (!trains) return;
  // Which of its metrics can be told depends on the set.
  if (opened.data.val) opened.task->BeginEvaluation(*opened.data.val);
  opened.judgement = loop::JudgementOf(config, *opened.task, opened.data);
  const std::vector<double> weights = tasks::ClassWeights(config.optimizer.class_weights, opened.data);
  if (!weights.empty()) opened.task->UseClassWeights(at::tensor(weights, at::kFloat).to(device));
}

int64_t ValidationSamples(const tasks::DataSets& data) {
  int64_t samples = 0;
  for (const tasks::DataSplit* split : tasks::ValidationSets(data)) samples += split->source->size();
  return samples;
}

std::string WhyNotRecorded(const Opened& run, at::Device device) {
  return loop::WhyNotRecorded(device, run.plan.batch.elastic, run.task->WhyNotRecorded());
}

}  // namespace dtrain::modes
