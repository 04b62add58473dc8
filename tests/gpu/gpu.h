// The GPU that tests use.
#pragma once

#include "trainer/device/device.h"

namespace dtrain {

inline at::Device Gpu() { return device::DeviceOf(launch::Launch{}, "nccl"); }

}  // namespace dtrain
