#include "trainer/modes/require_learnable.h"

#include <string>

#include "trainer/errors.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::modes {
namespace {

void RequireUpdatesOfAverage(const config::OptimizerConfig& optimizer, const loop::Plan& plan) {
  if (optimizer.ema_decay == 0 || plan.total_steps >= optimizer.ema_every) return;
  throw UsageError("--ema_decay keeps an average that would never be updated: the run has " +
                       std::to_string(plan.total_steps) + " steps, --ema_every=" + std::to_string(optimizer.ema_every),
                   "lower --ema_every, train longer, or leave out --ema_decay");
}

}  // namespace

void RequireLearnable(const config::Config& config, const loop::Plan& plan, const tasks::DataSets& data) {
  if (config.run.stop_after_epochs_without_gain > 0 && !data.val) {
    throw UsageError("--stop_after_epochs_without_gain measures the gain on a validation split, but there is none",
                     "--val_fraction=0.1 makes one from a part of the training split");
  }
  RequireUpdatesOfAverage(config.optimizer, plan);
  tasks::KindOf(config).RequireLearnable(config, plan.batch, data);
}

}  // namespace dtrain::modes
