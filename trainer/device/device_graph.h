// Work that a device records once and replays at a single call (a CUDA graph), so that the host need not start hundreds
// of kernels in every step.
#pragma once

#include <functional>

namespace dtrain::distributed {

// Recorded work must not wait for the device, and its tensors must be at the same addresses at each replay. A tensor
// that the work creates and that outlives it keeps its address, and holds what the last Replay wrote.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // Calls `work` without recording it. On the device it runs after everything that the caller has started before, and
  // before everything that the caller starts afterwards.
  virtual void Run(const std::function<void()>& work) = 0;

  // Calls `work` and records what it starts on the device, without running it there; replaces an earlier recording.
  // Throws c10::Error if `work` does something that cannot be recorded; this process cannot use the device after that.
  virtual void Record(const std::function<void()>& work) = 0;

  // Runs the recorded work on the device, in the same order with the caller's work as Run.
  virtual void Replay() = 0;
};

}  // namespace dtrain::distributed
