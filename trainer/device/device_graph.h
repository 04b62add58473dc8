// Work that a device records once and does again at one call (CUDA's graphs): the host, which would otherwise start
// hundreds of kernels a step, is out of the way.
#pragma once

#include <functional>

namespace dtrain::distributed {

// What is recorded must not wait for the device, and must find its tensors at the same places each time. Tensors that
// it makes and that outlive it keep their places, and hold what the last Replay wrote.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // Does `work` now, between what the caller has started before and what it starts after.
  virtual void Run(const std::function<void()>& work) = 0;

  // Records what `work` would have the device do, in place of what was recorded before; none of it is done. Throws
  // c10::Error where `work` does something that cannot be recorded; the device is of no use to this process then.
  virtual void Record(const std::function<void()>& work) = 0;

  // Does what was recorded, between what the caller has started before and what it starts after.
  virtual void Replay() = 0;
};

}  // namespace dtrain::distributed
