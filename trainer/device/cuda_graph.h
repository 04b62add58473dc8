// The implementation of DeviceGraphs by CUDA graphs; part of libdtrain_cuda.so.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "trainer/device/device_graph.h"

namespace dtrain::device {

// Returns an object without recordings for `device`, which must be the current device.
std::unique_ptr<DeviceGraphs> MakeCudaGraphs(at::Device device);

}  // namespace dtrain::device
