#include "trainer/loop/validation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "trainer/loop/evaluation.h"
#include "trainer/loop/run_quarantine.h"
#include "trainer/loop/training_health.h"

namespace dtrain::loop {

bool AverageDecides(const config::OptimizerConfig& config) { return config.ema_decay > 0 && config.best_of != "raw"; }

Validation::Validation(const TrainerParts& parts) : parts_(parts) {
  for (const tasks::DataSplit* split : tasks::ValidationSets(parts.data)) {
    sets_.push_back(
        {*split, MakeRunQuarantine(*split, parts.config.data, parts.files.quarantine(parts.communicator.rank()),
                                   "left out", parts.control)});
  }
}

std::optional<report::ValPoint> Validation::Run(int64_t steps_done, optim::WeightAverage* average) {
  std::vector<report::ValPoint> points;
  for (Set& set : sets_) {
    auto point = Evaluated(set, steps_done);
    if (!point) return std::nullopt;
    if (&set != &sets_.front()) point->split = set.split.name;
    points.push_back(std::move(*point));
  }
  if (average != nullptr) {
    const optim::WeightAverage::Scope scope(*average);
    for (size_t i = 0; i < sets_.size(); ++i) {
      if (!AddAverage(sets_[i], steps_done, points[i])) return std::nullopt;
    }
  }
  report::ValPoint first = std::move(points.front());
  first.further.assign(std::make_move_iterator(points.begin() + 1), std::make_move_iterator(points.end()));
  return first;
}

std::optional<report::ValPoint> Validation::Evaluated(Set& set, int64_t steps_done) {
  auto point =
      Evaluate(parts_.task, set.split, parts_.config, parts_.communicator, parts_.control, steps_done, *set.quarantine,
               [this](int64_t done, int64_t total) { parts_.reporter.Evaluating(done, total); });
  if (!point) return std::nullopt;
  if (point->text && !std::exchange(set.warned_of_unmeasured, true) && parts_.communicator.rank() == 0) {
    WarnOfUnmeasured(*point->text, set.split.name);
  }
  point->step = steps_done;
  point->epoch = parts_.plan.EpochAt(steps_done);
  point->epoch_number = parts_.plan.EpochNumber(std::max<int64_t>(1, steps_done));
  return point;
}

bool Validation::AddAverage(Set& set, int64_t steps_done, report::ValPoint& point) {
  const auto averaged = Evaluated(set, steps_done);
  if (!averaged) return false;
  if (AverageDecides(parts_.config.optimizer)) point.decides += point.metrics.size();
  for (report::Metric metric : averaged->metrics) {
    metric.name = "ema_" + metric.name;
    metric.table_heading.clear();
    point.metrics.push_back(std::move(metric));
  }
  return true;
}

}  // namespace dtrain::loop
