// The evaluations during a training: of the weights and, with --ema_decay, of their average.
#pragma once

#include <memory>
#include <optional>

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
  explicit operator bool() const { return quarantine_ != nullptr; }

  // A collective, called after `steps_done` steps. Returns the metrics of the weights themselves, followed by those of
  // `average`, named ema_*, if it is not null. Returns empty if all ranks have agreed to stop. Throws as Evaluate does.
  std::optional<report::ValPoint> Run(int64_t steps_done, optim::WeightAverage* average);

 private:
  const TrainerParts& parts_;
  std::unique_ptr<data::Quarantine> quarantine_;  // null without a validation split
  bool warned_of_unmeasured_ = false;
};

}  // namespace dtrain::loop
