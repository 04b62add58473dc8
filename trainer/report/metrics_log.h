// The histories of a run, one JSON object per line: metrics.jsonl, spikes.jsonl, and times.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/points.h"

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
  // Takes the place of an earlier attempt's lines on the restored step, which was saved before it was evaluated.
  void Validation(const ValPoint& point) override;
  void Epoch(const EpochPoint& point) override { AppendLine(JsonLine(point)); }

  void Clear();  // empties the file, for --clear_log

 private:
  void AppendLine(const std::string& line) { file_->Append(line + "\n"); }

  std::filesystem::path path_;
  std::optional<checkpoint::AppendFile> file_;
  int64_t restored_step_ = -1;  // until the first validation behind it
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

// times.jsonl: how the wall time of a run was spent, over all starts of the program, and how much of it was lost
// because the run had to go back to its last checkpoint. For rank 0 only. Lines are never removed: those of an attempt
// that was killed tell the time that it has spent, up to the last of them. Methods throw StorageError if they fail.
class TimesLog : public LogSink {
 public:
  // Opens or creates the file; its folder must exist.
  explicit TimesLog(std::filesystem::path path);

  // Appends a line with the totals of this attempt so far: {"attempt":1,"step":40,"startup_seconds":…,…}. Parts that
  // took no time are left out.
  void Times(const RunTimes& times) override;

  // Returns the split over all attempts in the file.
  TimeSplit Split() const;

 private:
  std::filesystem::path path_;
  int64_t attempt_ = 1;
  checkpoint::AppendFile file_;
};

// Returns the split for `lines`, the content of such a file. An attempt begins at the step of its first line: earlier
// attempts keep the time up to that step, and the rest of their time is lost. Invalid lines are skipped.
TimeSplit SplitOf(const std::string& lines);

}  // namespace dtrain::report
