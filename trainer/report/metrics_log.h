// The histories of a run, one JSON object per line: metrics.jsonl, and spikes.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "trainer/report/append_file.h"
#include "trainer/report/log_sink.h"

namespace dtrain::report {

// For rank 0 only. Methods throw StorageError if they fail.
class MetricsLog : public LogSink {
 public:
  // Opens or creates the file; its folder must exist.
  explicit MetricsLog(std::filesystem::path path);

  // Removes the lines of later steps, those of epochs that are not finished by then, and incomplete lines such as a
  // torn last one. Atomic.
  void Resume(int64_t step, double epochs_done) override;
  void Train(const TrainPoint& point) override { AppendLine(JsonLine(point)); }
  void Validation(const ValPoint& point) override { AppendLine(JsonLine(point)); }
  void Epoch(const EpochPoint& point) override { AppendLine(JsonLine(point)); }

  void Clear();  // empties the file, for --clear_log

 private:
  void AppendLine(const std::string& line) { file_->Append(line + "\n"); }
  void Replace(const std::string& content);

  std::filesystem::path path_;
  std::optional<AppendFile> file_;
};

// spikes.jsonl: the training losses that stood out (--spike_factor), each with the samples of its step, so that one can
// look at them. The file does not exist before the first. For rank 0 only. Methods throw StorageError if they fail.
class SpikeLog : public LogSink {
 public:
  static constexpr int64_t kMostLines = 200;

  explicit SpikeLog(std::filesystem::path path) : path_(std::move(path)) {}

  // As MetricsLog does.
  void Resume(int64_t step, double epochs_done) override;
  // Appends a line and warns of the spike. Does neither if there are kMostLines.
  void Spike(const SpikePoint& point) override;

 private:
  std::filesystem::path path_;
  int64_t lines_ = 0;
};

}  // namespace dtrain::report
