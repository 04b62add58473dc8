// Hands snapshots of the training to the checkpoint writer, and knows when --save_every_seconds asks for one.
#pragma once

#include <chrono>
#include <optional>

#include "trainer/checkpoint/async_writer.h"
#include "trainer/config/config.h"
#include "trainer/loop/phases.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/loop/training_state.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/optim/weight_average.h"

namespace dtrain::loop {

// Returns the seconds of work between two saves with the least cost. `stall`: the seconds that a save stops the
// training; `written`: those until it is on the disk, the least that is returned; `between_faults`: the mean time
// between two faults, in seconds.
double DalyInterval(double stall, double written, double between_faults);

// --save_every_seconds: the time between the beginnings of two saves, given or chosen with auto. Auto takes Daly's
// interval, which saves more often the more often there are faults, and less often the longer a save stops the
// training; how long a restart takes does not matter for it. J. T. Daly, A higher order estimate of the optimum
// checkpoint interval for restart dumps, FGCS 22 (2006).
class SaveInterval {
 public:
  explicit SaveInterval(const config::RunConfig& config);

  // Takes what a save has cost, in seconds; `written` is empty as long as no save is on the disk. With auto the
  // interval follows the mean of all stalls, and the last time to write.
  void Note(double stall, std::optional<double> written);
  // Seconds from the beginning of a save to that of the next; empty if time is no reason to save. Auto saves for the
  // first time after kFirstSeconds, and knows then what a save costs.
  std::optional<double> seconds() const;

  static constexpr double kFirstSeconds = 30;

 private:
  std::optional<double> given_;  // empty: auto
  double between_faults_;
  double stalls_ = 0;
  int num_saves_ = 0;
  double written_ = 0;
};

// A step that saves waits until the copies to the host have been started (on a CPU: made), and until the previous save
// has been written.
class Saving {
 public:
  // `writer` is null on ranks other than 0, which save nothing.
  Saving(const TrainerParts& parts, checkpoint::AsyncWriter* writer, Phases& phases)
      : parts_(parts), writer_(writer), phases_(phases), interval_(parts.config.run) {}

  // Starts the clock of --save_every_seconds. Called right before the first step.
  void Start() { last_ = std::chrono::steady_clock::now(); }
  // Whether --save_every_seconds have passed since the last save. Always false without a writer.
  bool IsDueByTime() const;

  // Saves a checkpoint; `average` may be null. Throws the error of an earlier save that failed (StorageError).
  void Save(const Progress& progress, const optim::ParameterUpdate& update, const optim::WeightAverage* average);
  // Whether the weights beside the checkpoints are not those of `step`, that of the newest one: the run was killed
  // between the two.
  bool LacksWeightsOf(int64_t step, bool has_average) const {
    return writer_ != nullptr && step > 0 && !writer_->HasWeightsOf(step, has_average);
  }
  // Whether the best weights beside the checkpoints are not those of `step`.
  bool LacksBestOf(int64_t step) const {
    return writer_ != nullptr && checkpoint::StepOfWeights(parts_.files.model_best) != step;
  }
  // Saves the current weights, or `average` if it is not null, as the best so far. Throws as Save does.
  void SaveBest(int64_t step, const optim::WeightAverage* average);
  // Waits until everything is on the disk. Throws StorageError.
  void Finish();

  // Reports the last checkpoint if it has got to the disk since the last call. Save and Finish call it, too.
  void ReportSaved();

  // Adds age and duration of the last checkpoint to a logged line.
  void AddTo(report::TrainPoint& point) const;

 private:
  const TrainerParts& parts_;
  checkpoint::AsyncWriter* writer_;
  Phases& phases_;
  SaveInterval interval_;
  std::chrono::steady_clock::time_point last_;
  std::optional<int64_t> reported_step_;
};

}  // namespace dtrain::loop
