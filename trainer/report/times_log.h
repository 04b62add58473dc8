// times.jsonl: how the wall time of a run was spent, over all starts of the program, and how much of it was lost
// because the run had to go back to its last checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/report/append_file.h"
#include "trainer/report/log_sink.h"
#include "trainer/report/points.h"

namespace dtrain::report {

// For rank 0 only. Lines are never removed: those of an attempt that was killed tell the time that it has spent, up to
// the last of them. Methods throw StorageError if they fail.
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
  AppendFile file_;
};

// Returns the split for `lines`, the content of such a file. An attempt begins at the step of its first line: earlier
// attempts keep the time up to that step, and the rest of their time is lost. Invalid lines are skipped.
TimeSplit SplitOf(const std::string& lines);

}  // namespace dtrain::report
