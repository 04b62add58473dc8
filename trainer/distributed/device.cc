// CUDA enters through a plugin that is loaded only where there is a GPU (see cuda/): without it this is the CPU.
#include "trainer/distributed/device.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>

#include "data/loader.h"

namespace dtrain::distributed {

int NumDevices() { return 0; }

at::Device DeviceOf(const launch::Launch&) { return at::kCPU; }

std::string Describe(at::Device device) {
  return device.str() + " (" + std::to_string(at::get_num_threads()) + " threads)";
}

void UseShareOfCores(const launch::Launch& launch) {
  if (launch.launcher != "torchrun" && std::getenv("OMP_NUM_THREADS") != nullptr) return;
  at::set_num_threads(static_cast<int>(std::max<int64_t>(1, data::AvailableCores() / launch.local_world_size)));
}

}  // namespace dtrain::distributed
