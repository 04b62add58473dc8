// A run's latest numbers for Prometheus: at http://ADDRESS:PORT/metrics, or in a file. /healthz says to Kubernetes
// whether the ranks go on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/machine/thread.h"
#include "data/outputs.h"
#include "trainer/report/gpu_use.h"
#include "trainer/report/points.h"

struct MHD_Daemon;

namespace dtrain::report {

// How --metrics_file is known again.
inline const data::Mark kMetricsMark = {"# HELP dtrain_"};

// The facts of a run that do not change.
struct RunFacts {
  std::string model;
  int world_size = 1;
  int64_t total_steps = 0;
};

struct MetricValue {
  std::string name, help;  // a name of letters, digits and underscores; those that count end in _total
  std::optional<double> value;
  std::vector<std::pair<std::string, std::string>> labels = {};
};

// Returns values in Prometheus' text format, with dtrain_ before their names. Those of one name must stand together.
std::string PrometheusText(const std::vector<MetricValue>& values);

// The main thread reports the numbers; other threads may call Values at any time. The slow part, asking the GPUs, is
// done on the thread that calls Values. A gauge without a number is NaN (the loss of steps that were skipped). What a
// run does not have is empty (the loss scale in fp32) or not there (the validation before the first one).
// docs/metrics.md lists names and meanings.
class RunMetrics final : public LogSink {
 public:
  using GpuSource = std::function<std::vector<GpuUse>()>;

  RunMetrics(RunFacts facts, GpuSource gpus);

  void Resume(int64_t step, double epochs_done) override;
  void Train(const TrainPoint& point) override;
  void Validation(const ValPoint& point) override;
  void Epoch(const EpochPoint& point) override;
  void Finish(const RunResult& result) override;

  // Any thread.
  std::vector<MetricValue> Values() const;

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

struct Health {
  bool alive;
  std::string text;  // one line, for people
};

// One thread of its own serves all connections without blocking, so training is never delayed. It closes a connection
// that is idle for two seconds, and the oldest one if there are too many, so clients that send a byte now and then keep
// nobody out.
class MetricsEndpoint {
 public:
  // What is served. What is null is not found.
  struct Pages {
    std::shared_ptr<const RunMetrics> metrics;
    std::function<Health()> health;  // called on the server's thread; status 503 if it is not alive
  };
  // `address` is an IPv4 or IPv6 address ("::" accepts both kinds of connections). With `port` 0 the system chooses a
  // free one. Throws UsageError if it cannot listen there.
  MetricsEndpoint(const std::string& address, int port, Pages pages);
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  int port() const { return port_; }

 private:
  Pages pages_;
  int port_ = 0;
  std::deque<int> visitors_;  // sockets of the open connections, the oldest first; only the server's thread uses it
  MHD_Daemon* server_ = nullptr;
};

// Returns "http://127.0.0.1:9401/metrics", with brackets around an IPv6 address.
std::string MetricsUrl(const std::string& address, int port);

// Writes the metrics to a file for node-exporter's textfile collector, for machines that accept no connections. A
// thread of its own writes the file, so that a slow disk delays no step. The file is replaced atomically, so that a
// reader never sees half of it.
class MetricsFile {
 public:
  // Writes the file for the first time; throws StorageError if it cannot. Later failures are logged as one warning.
  MetricsFile(std::filesystem::path path, std::shared_ptr<const RunMetrics> metrics, double interval_seconds = 10);
  // Writes the file for the last time.
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

 private:
  void Write() const;
  void TryToWrite();
  void Run(const std::stop_token& stop, double interval_seconds);

  const std::filesystem::path path_;
  const std::shared_ptr<const RunMetrics> metrics_;
  bool warned_ = false;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  data::Thread thread_;  // declared last, because it uses everything above
};

}  // namespace dtrain::report
