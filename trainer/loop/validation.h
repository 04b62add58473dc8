// The evaluations during a training: of the weights and, with --ema_decay, of their average, on each validation set.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/pipeline/quarantine.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/optim/weight_average.h"

namespace dtrain::loop {

// Whether the metrics of the average of the weights tell which weights are the best; these are the average's then.
bool AverageDecides(const config::OptimizerConfig& config);

class Validation {
 public:
  explicit Validation(const TrainerParts& parts);

  // Whether there is a validation split.
  explicit operator bool() const { return !sets_.empty(); }

  // A collective, called after `steps_done` steps. Returns the metrics of the weights themselves, followed by those of
  // `average`, named ema_*, if it is not null; those of further validation sets are ValPoint::further. Returns empty if
  // all ranks have agreed to stop. Throws as Evaluate does.
  std::optional<report::ValPoint> Run(int64_t steps_done, optim::WeightAverage* average);

 private:
  struct Set {
    const tasks::DataSplit& split;
    std::unique_ptr<data::Quarantine> quarantine;
    bool warned_of_unmeasured = false;
  };

  // Evaluates the weights that the model has now. Returns empty if all ranks have agreed to stop.
  std::optional<report::ValPoint> Evaluated(Set& set, int64_t steps_done);
  // Adds the metrics of the average to `point`. Returns false if all ranks have agreed to stop.
  bool AddAverage(Set& set, int64_t steps_done, report::ValPoint& point);

  const TrainerParts& parts_;
  std::vector<Set> sets_;  // the one that decides first
};

}  // namespace dtrain::loop
