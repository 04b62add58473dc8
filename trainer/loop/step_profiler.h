// --profile_steps: a trace of a few training steps: every operator, kernel, copy and call into CUDA, with their times.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "trainer/config/step_range.h"

namespace dtrain::loop {

// Each step of the trace is marked "train_step N". A trace opens in chrome://tracing or Perfetto; scripts/gpu_check
// reads it, too.
class StepProfiler {
 public:
  // Without `steps` it does nothing. `trace` is written after the last of them; its folder need not exist.
  StepProfiler(std::optional<config::StepRange> steps, std::filesystem::path trace, at::Device device);
  ~StepProfiler();

  // Around step `number`, counted from 1. A step that is profiled costs more, and those at both ends wait for the
  // device. Throws StorageError where the trace cannot be written.
  void Before(int64_t number);
  void After(int64_t number);

 private:
  struct Mark;
  std::optional<config::StepRange> steps_;
  std::filesystem::path trace_;
  at::Device device_;
  std::unique_ptr<Mark> mark_;  // the step under way
};

}  // namespace dtrain::loop
