// The training loop: steps, and between them logging, evaluating, saving and stopping.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "trainer/checkpoint/async_writer.h"
#include "trainer/loop/batch_feed.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/log_interval.h"
#include "trainer/loop/phases.h"
#include "trainer/loop/saving.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/loop/training_health.h"
#include "trainer/loop/training_state.h"
#include "trainer/loop/training_step.h"

namespace dtrain::loop {

class Trainer {
 public:
  // `writer` is null on ranks other than 0. It must outlive the trainer.
  Trainer(const TrainerParts& parts, checkpoint::AsyncWriter* writer);

  // A collective, called once before Run, also by a fresh run. `restored` is the checkpoint that rank 0 has read (null
  // on other ranks, and if there is none), `progress` is the same on all ranks. Throws StorageError if the checkpoint
  // does not fit the model or the optimizer.
  void Restore(const Progress& progress, const checkpoint::Snapshot* restored);

  // A collective. Trains to the end of the plan, or until training stops early (Plan::WhyStopsEarly). Throws Preempted
  // after a clean save if any rank was asked to stop, DivergedError if too many steps in a row were skipped or the run
  // does not end well (RequireGoodEnd), DataError, StorageError, and the errors of Communicator if a peer is lost.
  report::RunResult Run();

  // From now on Run stores the number of steps done in `*step`, for the report of a failure.
  void ReportStepsTo(int64_t* step) { reported_step_ = step; }

 private:
  int64_t LastStep() const;  // the last step of this run of the program: see --limit_train_steps
  bool EvaluationWasMissed() const;
  bool StopsEarly() const { return !parts_.plan.WhyStopsEarly(progress_).empty(); }
  [[noreturn]] void SaveAndStop();
  void StartFeed();
  void TrainStep();
  data::Batch NextBatch();
  void LogStep();
  void NoteLoss(const report::TrainPoint& point);
  void ReportSpikes();
  void ReportTimes();
  void WarnOfWaiting(const report::TrainPoint& point);
  void FinishEpoch();
  void EvaluateNow();
  void Save();
  void NoteBest(const report::ValPoint& point);
  void SaveBest();
  RunEnd End() const;
  report::RunResult Result() const;

  const TrainerParts parts_;
  int64_t* reported_step_ = nullptr;
  const std::unique_ptr<data::Quarantine> quarantine_;  // of training
  std::optional<BatchFeed> feed_;                       // while it trains
  Validation validation_;
  Progress progress_;
  StepProfiler profiler_;
  Phases phases_;
  Saving saving_;
  LogInterval interval_;
  TrainingStep step_;
  double evaluation_seconds_ = 0;  // in this run of the program
  bool warned_of_waiting_ = false, said_replayed_ = false;
  // No step of the last logged line had a finite loss, although one had something to learn.
  bool last_line_is_lost_ = false;
  SkippedSteps skipped_steps_;
  NothingToLearn nothing_to_learn_;
  std::chrono::steady_clock::time_point start_, epoch_start_, last_times_;
};

}  // namespace dtrain::loop
