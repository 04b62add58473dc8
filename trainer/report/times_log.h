// times.jsonl: where the wall time of a run went, over all starts of the program, and what of it was lost because a run
// had to go back to its last checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/report/append_file.h"
#include "trainer/report/log_sink.h"
#include "trainer/report/points.h"

namespace dtrain::report {

// For rank 0 only. Nothing is ever cut off the file: the lines of an attempt that was killed say, up to the last of
// them, what it has spent. Failures are StorageError.
class TimesLog : public LogSink {
 public:
  // Opens or creates the file; its folder must exist.
  explicit TimesLog(std::filesystem::path path);

  // A line: {"attempt":1,"step":40,"startup_seconds":…,…}, all of this attempt so far. Parts that took no time are left
  // out.
  void Times(const RunTimes& times) override;

  // All attempts.
  TimeSplit Split() const;

 private:
  std::filesystem::path path_;
  int64_t attempt_ = 1;
  AppendFile file_;
};

// What `lines` (the content of such a file) come to. An attempt begins at the step of its first line; the ones before
// have kept what they had done by then, and lost the rest. Lines that are none are left out.
TimeSplit SplitOf(const std::string& lines);

}  // namespace dtrain::report
