// metrics.jsonl: the history of a run, one JSON object a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/report/append_file.h"
#include "trainer/report/log_sink.h"

namespace dtrain::report {

// For rank 0 only. Failures are StorageError.
class MetricsLog : public LogSink {
 public:
  // Opens or creates the file; its folder must exist.
  explicit MetricsLog(std::filesystem::path path);

  // Drops the lines of later steps, of epochs that are not finished by then, and lines that are not whole (a torn last
  // one). Atomic.
  void Resume(int64_t step, double epochs_done) override;
  void Train(const TrainPoint& point) override { AppendLine(JsonLine(point)); }
  void Validation(const ValPoint& point) override { AppendLine(JsonLine(point)); }
  void Epoch(const EpochPoint& point) override { AppendLine(JsonLine(point)); }

  // --clear_log.
  void Clear();

 private:
  void AppendLine(const std::string& line) { file_->Append(line + "\n"); }
  void Replace(const std::string& content);

  std::filesystem::path path_;
  std::optional<AppendFile> file_;
};

}  // namespace dtrain::report
