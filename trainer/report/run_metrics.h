// Keeps a run's latest numbers for Prometheus. The main thread reports them; other threads may call Text at any time.
// The slow part, asking the GPUs, is done on the thread that calls Text.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/report/gpu_use.h"
#include "trainer/report/log_sink.h"

namespace dtrain::report {

// Prometheus' text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/
class PrometheusText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // `name` consists of letters, digits and underscores, and gets the prefix dtrain_. Values of one name must be added
  // one after the other.
  void Gauge(const std::string& name, std::string_view help, double value, const Labels& labels = {});
  // Adds nothing if `value` is empty.
  void Gauge(const std::string& name, std::string_view help, const std::optional<double>& value);
  void Counter(const std::string& name, std::string_view help, double value);

  std::string Take() { return std::move(text_); }

 private:
  void Add(std::string_view type, const std::string& name, std::string_view help, double value, const Labels& labels);

  std::string text_;
  std::string last_name_;  // HELP and TYPE are written only when the name changes
};

// The facts of a run that do not change.
struct RunFacts {
  std::string model;
  int world_size = 1;
  int64_t total_steps = 0;
};

// A gauge without a number is NaN (the loss of steps that were skipped). A gauge that a run does not have is left out
// (the loss scale in fp32, the validation before the first one). docs/metrics.md lists names and meanings.
class RunMetrics final : public LogSink {
 public:
  using GpuSource = std::function<std::vector<GpuUse>()>;

  RunMetrics(RunFacts facts, GpuSource gpus);

  void Resume(int64_t step, double epochs_done) override;
  void Train(const TrainPoint& point) override;
  void Validation(const ValPoint& point) override;
  void Epoch(const EpochPoint& point) override;
  void Finish(const RunResult& result) override;

  // Returns all metrics in Prometheus' text format. Any thread.
  std::string Text() const;

 private:
  using Clock = std::chrono::steady_clock;

  const RunFacts facts_;
  const GpuSource gpus_;

  mutable std::mutex mutex_;  // guards the members below
  int64_t step_ = 0;
  double epoch_ = 0;
  std::optional<TrainPoint> train_;
  Clock::time_point train_heard_;  // when train_ was reported
  std::optional<ValPoint> validation_;
  std::optional<double> epoch_seconds_;
  // Sums over this start of the program.
  double data_wait_seconds_ = 0;
  int64_t skipped_steps_ = 0;
  bool finished_ = false;
};

}  // namespace dtrain::report
