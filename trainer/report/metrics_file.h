// The same metrics as a file, for machines that let nobody in: node-exporter's textfile collector reads it.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

namespace dtrain::report {

class RunMetrics;

// Written in a thread of its own, so that a slow disk touches no step; replaced as a whole, so that a reader never sees
// half of it.
class MetricsFile {
 public:
  // Writes it a first time: throws StorageError where it cannot be. Later failures are one warning.
  MetricsFile(std::filesystem::path path, std::shared_ptr<const RunMetrics> metrics, double interval_seconds = 10);
  // Writes it a last time.
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
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dtrain::report
