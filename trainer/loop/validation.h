// The evaluations that a training makes as it goes on.
#pragma once

#include <memory>
#include <optional>

#include "data/pipeline/quarantine.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/optim/weight_average.h"

namespace dtrain::loop {

class Validation {
 public:
  explicit Validation(const TrainerParts& parts);

  // Whether there is anything to evaluate on.
  explicit operator bool() const { return quarantine_ != nullptr; }

  // A collective, after so many steps: metrics of the weights themselves, and behind them, named ema_*, those of
  // `average` (null: none). nullopt: all ranks have agreed to stop. Throws as Evaluate.
  std::optional<report::ValPoint> Run(int64_t steps_done, optim::WeightAverage* average);

 private:
  const TrainerParts& parts_;
  std::unique_ptr<data::Quarantine> quarantine_;  // null without a validation split
};

}  // namespace dtrain::loop
