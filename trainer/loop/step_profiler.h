// --profile_steps: a trace of a few training steps (every operator, kernel, copy and call into CUDA, with its time) and
// a table of where the time of these steps goes.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trainer/config/step_range.h"
#include "trainer/loop/step_timeline.h"

namespace dtrain::loop {

// In the trace each step is marked "train_step N". chrome://tracing and Perfetto open it; scripts/gpu_check reads it.
class StepProfiler {
 public:
  using Print = std::function<void(const std::string& line)>;

  // Without `steps` the profiler does nothing. After the last of them it writes `trace`, and the table beside it as
  // .txt; the folder need not exist. `recorded`: see StepTimeline. `print` is called with each line of the table.
  StepProfiler(std::optional<config::StepRange> steps, std::filesystem::path trace, at::Device device, bool recorded,
               Print print);
  ~StepProfiler();

  // Called before and after step `number`, counted from 1. A profiled step takes longer, and the first and the last one
  // wait for the device. After throws StorageError if the trace cannot be written.
  void Before(int64_t number);
  void After(int64_t number);
  // The step spends its time on `part` from now on. Ignored outside profiled steps.
  void Enter(report::Phase part) {
    if (mark_) timeline_.Enter(part);
  }

 private:
  void Save();
  void WriteTable();

  struct Mark;
  std::optional<config::StepRange> steps_;
  std::filesystem::path trace_;
  at::Device device_;
  bool recorded_;
  Print print_;
  StepTimeline timeline_;
  std::unique_ptr<Mark> mark_;  // of the step under way; null outside profiled steps
};

}  // namespace dtrain::loop
