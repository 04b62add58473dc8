// What libdtrain_cuda.so makes of LibTorch's CUDA: recorded graphs, and random numbers that follow them.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "models/kernels/philox.h"
#include "trainer/device/device_graph.h"

namespace dtrain::device {

// Returns an object without recordings for `device`, which must be the current device.
std::unique_ptr<DeviceGraphs> MakeCudaGraphs(at::Device device);

// Takes random numbers for one launch of a kernel of this project from LibTorch's default generator of the current
// device. So they follow its seed, its saved states, and recorded graphs.
models::kernels::RandomState CudaRandom();

}  // namespace dtrain::device
