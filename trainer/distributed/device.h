// Which device this rank computes on, and with how many threads.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "trainer/launch/launch.h"

namespace dtrain::distributed {

// GPUs that this process can use; 0 in a build or on a machine without.
int NumDevices();

// The GPU of the local rank, or the CPU where there is none. Throws UsageError for more local ranks than GPUs.
at::Device DeviceOf(const launch::Launch& launch);

// "cpu (2 threads)".
std::string Describe(at::Device device);

// This rank's share of the cores, for ATen's operators. OMP_NUM_THREADS is respected except under torchrun, which sets
// it to 1 unasked.
void UseShareOfCores(const launch::Launch& launch);

}  // namespace dtrain::distributed
