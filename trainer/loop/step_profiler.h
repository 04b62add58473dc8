// --profile_steps: a trace of a few training steps: every operator, kernel, copy and call into CUDA, with their times;
// and a table of where their time goes.
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

// Each step of the trace is marked "train_step N". A trace opens in chrome://tracing or Perfetto; scripts/gpu_check
// reads it, too.
class StepProfiler {
 public:
  using Print = std::function<void(const std::string& line)>;

  // Without `steps` it does nothing. `trace` is written after the last of them, and the table beside it as .txt; the
  // folder need not exist. `recorded`: as StepTimeline has it. `print` gets the table's lines.
  StepProfiler(std::optional<config::StepRange> steps, std::filesystem::path trace, at::Device device, bool recorded,
               Print print);
  ~StepProfiler();

  // Around step `number`, counted from 1. A step that is profiled costs more, and those at both ends wait for the
  // device. Throws StorageError where the trace cannot be written.
  void Before(int64_t number);
  void After(int64_t number);
  // What the step is at from now on.
  void Enter(report::TimePart part) {
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
  std::unique_ptr<Mark> mark_;  // the step under way
};

}  // namespace dtrain::loop
