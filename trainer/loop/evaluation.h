// Exact evaluation: each validation sample counts exactly once, no batch is filled up, and sums are added over ranks.
// Validation evaluates all validation sets during a training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/pipeline/quarantine.h"
#include "trainer/config/config.h"
#include "trainer/control/control_plane.h"
#include "trainer/distributed/communicator.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/optim/weight_average.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task.h"

namespace dtrain::loop {

// Throws UsageError if --best_metric is neither `auto` nor one of the task's metrics. If it is one that needs
// confusions, the task counts them from now on.
void RequireBestMetric(const std::string& best_metric, tasks::Task& task);

// By what the weights of a training are judged.
struct Judgement {
  std::string best_metric;                     // decides which are the best; of their average it begins with ema_
  std::vector<std::string> smaller_is_better;  // see report::SmallerIsBetter
};

// Returns that of a training before it has begun. Throws UsageError if a validation set has a name that gives its
// numbers the names of others: "ema" with --ema_decay.
Judgement JudgementOf(const config::Config& config, const tasks::Task& task, const tasks::DataSets& data);

// Called after each round of batches (one batch per rank) with the numbers of rounds done and of all rounds.
using EvaluationProgress = std::function<void(int64_t done, int64_t total)>;

// A collective. Each rank evaluates its batches of --batch_size samples (or --max_tokens tokens); see SplitBatches. Bad
// records are left out and added to `quarantine`. Afterwards the model is in training mode again. Returns empty if all
// ranks have agreed to stop, each after the same round. The control plane takes `steps_done` as the position of this
// rank. The caller fills in step and epoch of the result. Throws DataError if no record could be read, or too many are
// bad.
std::optional<report::ValPoint> Evaluate(tasks::Task& task, const tasks::DataSplit& split, const config::Config& config,
                                         distributed::Communicator& communicator, control::ControlPlane& control,
                                         int64_t steps_done, data::Quarantine& quarantine,
                                         const EvaluationProgress& progress = nullptr);

// The evaluations during a training: of the weights and, with --ema_decay, of their average, on each validation set.
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

  const TrainerParts& parts_;
  std::vector<Set> sets_;  // the one that decides first
};

}  // namespace dtrain::loop
