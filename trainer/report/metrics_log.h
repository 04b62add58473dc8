// metrics.jsonl: the history of a run, one JSON object per line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

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

}  // namespace dtrain::report
