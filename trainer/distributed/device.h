// Which device this rank computes on, and with how many threads.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "trainer/launch/launch.h"

namespace dtrain::distributed {

// The GPU of the local rank, which becomes the thread's current device; the CPU where there is none, or with
// --backend=gloo. Throws UsageError for more local ranks than GPUs, and for --backend=nccl without any.
at::Device DeviceOf(const launch::Launch& launch, const std::string& backend);

// "cpu (2 threads)".
std::string Describe(at::Device device);

// The cores of this machine that one of its ranks may use: an equal part, at least 1.
int64_t ShareOfCores(const launch::Launch& launch);

// This rank's share of the cores, for ATen's operators. OMP_NUM_THREADS is respected except under torchrun, which sets
// it to 1 unasked.
void UseShareOfCores(const launch::Launch& launch);

}  // namespace dtrain::distributed
