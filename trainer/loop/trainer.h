// The training loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "data/pipeline/device_feed.h"
#include "data/pipeline/loader.h"
#include "data/pipeline/quarantine.h"
#include "trainer/checkpoint/async_writer.h"
#include "trainer/config/config.h"
#include "trainer/control/control_plane.h"
#include "trainer/distributed/communicator.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/distributed/step_exchange.h"
#include "trainer/loop/plan.h"
#include "trainer/loop/reporter.h"
#include "trainer/loop/step_graph.h"
#include "trainer/loop/step_profiler.h"
#include "trainer/loop/training_state.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/optim/weight_average.h"
#include "trainer/report/run_directory.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/split_batches.h"
#include "trainer/tasks/task.h"

namespace dtrain::loop {

// What a trainer works on; all of it outlives the trainer.
struct TrainerParts {
  const config::Config& config;
  const Plan& plan;
  const DataSets& data;
  const SplitBatches& train_batches;
  Task& task;
  distributed::Communicator& communicator;
  distributed::ControlPlane& control;
  Reporter& reporter;
  const report::RunDirectory& files;
  at::Device device;
  data::DeviceImageDecoder* image_decoder;  // null: images are decoded on the CPU
  StepGraph* step_graph;                    // null: each step is done as it comes
  nlohmann::json kept;                      // goes into every checkpoint beside the progress
};

class Trainer {
 public:
  // `writer` is rank 0's, null on the others.
  Trainer(const TrainerParts& parts, checkpoint::AsyncWriter* writer);
  ~Trainer();

  // Before Run, on all ranks alike: `restored` is what rank 0 read from its checkpoint (null on the others, and where
  // there is none), `progress` is the same on all ranks.
  void Restore(const Progress& progress, const checkpoint::Snapshot* restored);

  // To the end of the plan. Throws Preempted after a clean save when a stop was asked for on any rank, DivergedError
  // when the loss is no longer finite, and what data, peers and disk throw.
  report::RunResult Run();

  // Keeps `*step` at the number of steps done, for the report of a failure.
  void ReportStepsTo(int64_t* step) { reported_step_ = step; }

 private:
  int64_t LastStep() const;  // of this run of the program
  bool EvaluationWasMissed() const;
  void StartLoader();
  [[noreturn]] void SaveAndStop();
  void TrainStep();
  // The batch of a micro-step, arrived; what its step draws is drawn from now on.
  data::Batch NextBatch(int64_t micro_step);
  // What a step does on the device.
  void ComputeStep(const std::function<data::Batch(int64_t micro_step)>& next_batch, const optim::Rate& learning_rate);
  void ComputeMicroStep(const data::Batch& batch, bool reduce, at::Tensor& sums);
  void AddNorm();
  void LogStep();
  void AddTextTo(report::TrainPoint& point, const at::Tensor& sums, double seconds);
  void WarnOfWaiting(const report::TrainPoint& point);
  void FinishEpoch();
  void EvaluateNow();
  std::optional<report::ValPoint> EvaluateWeights();
  void RestoreAverage(const checkpoint::Snapshot* restored);
  void Save();
  bool SaveIsDueByTime() const;
  int64_t FirstBatch() const;
  data::BatchProvider TrainBatches();
  void NoteBest(const report::ValPoint& point);
  report::RunResult Result(std::chrono::steady_clock::time_point start) const;

  const TrainerParts parts_;
  checkpoint::AsyncWriter* writer_;
  int64_t* reported_step_ = nullptr;
  const double nominal_weight_;                                          // of a global batch: see Task
  std::unique_ptr<data::Quarantine> train_quarantine_, val_quarantine_;  // the latter null without validation
  optim::ParameterUpdate update_;
  std::optional<optim::WeightAverage> average_;
  Progress progress_;
  std::unique_ptr<distributed::DataParallel> data_parallel_;
  std::unique_ptr<distributed::StepExchange> exchange_;
  std::unique_ptr<data::Loader> loader_;
  std::optional<data::DeviceFeed> feed_;
  StepProfiler profiler_;

  at::Tensor interval_sums_;       // since the last logged line, on the device: see IntervalSum
  at::Tensor units_;               // of this run of the program, float64 on the device: what its speed counts
  double data_seconds_ = 0;        // waited for data since the last logged line
  double evaluation_seconds_ = 0;  // in this run of the program
  int64_t interval_steps_ = 0;
  int64_t decoded_on_cpu_ = 0;  // images of this rank since the last logged line
  bool warned_of_waiting_ = false;
  std::chrono::steady_clock::time_point run_start_, interval_start_, epoch_start_, last_save_;
};

}  // namespace dtrain::loop
