// Which device this rank computes on, and with how many threads.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "trainer/device/device_choice.h"
#include "trainer/launch/launch.h"

namespace dtrain::distributed {

struct RankDevice {
  at::Device device;
  std::string name;    // of a GPU: "NVIDIA H100 80GB HBM3"
  std::string pci_id;  // of a GPU
};

// Which of the machine's GPUs is this rank's to take.
RankPlace PlaceOf(const launch::Launch& launch);

// The GPU of the local rank, which becomes the thread's current device; the CPU where there is none, or with
// --backend=gloo. Throws UsageError as ChooseGpu does.
RankDevice ChooseDevice(const launch::Launch& launch, const std::string& backend);
at::Device DeviceOf(const launch::Launch& launch, const std::string& backend);

// "cpu (2 threads)".
std::string Describe(at::Device device);

// The cores of this machine that one of its ranks may use: an equal part, at least 1.
int64_t ShareOfCores(const launch::Launch& launch);

// The most memory that was in use at once, in bytes: on a GPU by tensors, on the CPU by the process.
int64_t PeakMemoryBytes(at::Device device);

// Of a GPU's memory, what was not in use by tensors when they used most, in GiB; since the last call.
double LeastFreeGigabytes(at::Device device);

// Throws std::system_error where this process may not have so many threads more: for libraries that end or hang where
// they find it out themselves.
void RequireThreads(int count);

// For ATen's operators. Where it finds that a thread cannot be started, OpenMP ends the process with 1, and LibTorch's
// pool waits for ever: throws std::system_error instead.
void UseThreads(int count);

// This rank's share of the cores, for ATen's operators. OMP_NUM_THREADS is respected except under torchrun, which sets
// it to 1 unasked.
void UseShareOfCores(const launch::Launch& launch);

}  // namespace dtrain::distributed
