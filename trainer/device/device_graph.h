// Work that a device records once and replays at a single call (a CUDA graph), so that the host need not start hundreds
// of kernels in every step.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

#include "models/kernels/philox.h"

namespace dtrain::device {

// Recorded work must not wait for the device, and its tensors must be at the same addresses at each replay. Recordings
// share one memory: a tensor that the work creates and that outlives it holds what the last replay of the same
// recording wrote, until another one is replayed.
class DeviceGraphs {
 public:
  using Work = std::function<void()>;

  virtual ~DeviceGraphs() = default;

  // Calls `work` without recording it. On the device it runs after everything that the caller has started before, and
  // before everything that the caller starts afterwards.
  virtual void Run(const Work& work) = 0;

  // Calls `work` and records what it starts on the device, without running it there. Returns a function that runs the
  // recorded work on the device, in the same order with the caller's work as Run; the recording lives as long as that
  // function, which must not outlive this object. Throws what `work` throws, and c10::Error if it does something that
  // cannot be recorded. Then the device has computed nothing, and its random generator is as before.
  virtual Work Record(const Work& work) = 0;

  // Whether another recording fits into the device's free memory, together with work that is not recorded: both need as
  // much as Run has needed so far, but recordings share their memory. Waits for the device.
  virtual bool HasRoom() = 0;
};

// These are in libdtrain_cuda.so.
// Returns an object without recordings for `device`, which must be the current device.
std::unique_ptr<DeviceGraphs> MakeCudaGraphs(at::Device device);
// Takes random numbers for one launch of a kernel of this project from LibTorch's default generator of the current
// device. So they follow its seed, its saved states, and recorded graphs.
models::kernels::RandomState CudaRandom();

}  // namespace dtrain::device
