#include "trainer/loop/validation.h"

#include <algorithm>
#include <utility>

#include "trainer/loop/evaluation.h"
#include "trainer/loop/run_quarantine.h"
#include "trainer/loop/training_health.h"

namespace dtrain::loop {

bool AverageDecides(const config::OptimizerConfig& config) { return config.ema_decay > 0 && config.best_of != "raw"; }

Validation::Validation(const TrainerParts& parts) : parts_(parts) {
  if (!parts.data.val) return;
  quarantine_ = MakeRunQuarantine(*parts.data.val, parts.config.data, parts.files.quarantine(parts.communicator.rank()),
                                  "left out", parts.control);
}

std::optional<report::ValPoint> Validation::Run(int64_t steps_done, optim::WeightAverage* average) {
  const auto evaluate = [&] {
    return Evaluate(parts_.task, *parts_.data.val, parts_.config, parts_.communicator, parts_.control, steps_done,
                    *quarantine_, [this](int64_t done, int64_t total) { parts_.reporter.Evaluating(done, total); });
  };
  auto point = evaluate();
  if (!point) return std::nullopt;
  if (point->text && !std::exchange(warned_of_unmeasured_, true) && parts_.communicator.rank() == 0) {
    WarnOfUnmeasured(*point->text, parts_.data.val->name);
  }
  point->step = steps_done;
  point->epoch = parts_.plan.EpochAt(steps_done);
  point->epoch_number = parts_.plan.EpochNumber(std::max<int64_t>(1, steps_done));
  if (average == nullptr) return point;
  std::optional<report::ValPoint> averaged;
  {
    const optim::WeightAverage::Scope scope(*average);
    averaged = evaluate();
  }
  if (!averaged) return std::nullopt;
  if (AverageDecides(parts_.config.optimizer)) point->decides += point->metrics.size();
  for (report::Metric metric : averaged->metrics) {
    metric.name = "ema_" + metric.name;
    metric.table_heading.clear();
    point->metrics.push_back(std::move(metric));
  }
  return point;
}

}  // namespace dtrain::loop
