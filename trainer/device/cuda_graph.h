// Part of libdtrain_cuda.so.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "trainer/device/device_graph.h"

namespace dtrain::distributed {

// A graph of `device`, which is the current one.
std::unique_ptr<DeviceGraph> MakeCudaGraph(at::Device device);

}  // namespace dtrain::distributed
