// Writes a run's metrics to a file for node-exporter's textfile collector, for machines that accept no connections.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

namespace dtrain::report {

class RunMetrics;

// A thread of its own writes the file, so that a slow disk delays no step. The file is replaced atomically, so that a
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
  std::jthread thread_;  // declared last, because it uses everything above
};

}  // namespace dtrain::report
