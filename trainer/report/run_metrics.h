// A run's latest numbers for Prometheus. The loop's thread tells them, other threads ask for them at any time; what
// costs something (asking the GPUs) is done by who asks.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/gpu_use.h"
#include "trainer/report/log_sink.h"

namespace dtrain::report {

// What does not change.
struct RunFacts {
  std::string model;
  int world_size = 1;
  int64_t total_steps = 0;
};

// Gauges have NaN where there is none yet (the loss of a step that was skipped); what a run does not have (the loss
// scale of fp32, a validation before the first) is left out. Names and meanings are in docs/metrics.md.
class RunMetrics final : public LogSink {
 public:
  using GpuSource = std::function<std::vector<GpuUse>()>;

  RunMetrics(RunFacts facts, GpuSource gpus);

  void Resume(int64_t step, double epochs_done) override;
  void Train(const TrainPoint& point) override;
  void Validation(const ValPoint& point) override;
  void Epoch(const EpochPoint& point) override;
  void Finish(const RunResult& result) override;

  // In Prometheus' text format.
  std::string Text() const;

 private:
  using Clock = std::chrono::steady_clock;

  const RunFacts facts_;
  const GpuSource gpus_;

  mutable std::mutex mutex_;
  int64_t step_ = 0;
  double epoch_ = 0;
  std::optional<TrainPoint> train_;
  Clock::time_point train_heard_;
  std::optional<ValPoint> validation_;
  std::optional<double> epoch_seconds_;
  // Of this run of the program.
  double data_wait_seconds_ = 0;
  int64_t skipped_steps_ = 0;
  bool finished_ = false;
};

}  // namespace dtrain::report
