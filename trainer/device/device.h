// The device that a rank computes on, its memory, the number of CPU threads that it uses, and the choice between
// algorithms that compute the same.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "trainer/device/device_choice.h"
#include "trainer/launch/launch.h"

namespace dtrain::device {

struct RankDevice {
  at::Device device;
  Gpu gpu;  // empty for the CPU
};

// Returns the facts of the launch from which ChooseGpu chooses a GPU.
RankPlace PlaceOf(const launch::Launch& launch);

// Returns the GPU of this local rank and makes it the current device of the calling thread and of each data::Thread
// that starts later. Returns the CPU if there is no GPU, or with --backend=gloo. Throws UsageError as ChooseGpu and
// LoadCudaPlugin do.
RankDevice ChooseDevice(const launch::Launch& launch, const std::string& backend,
                        const std::string& precision = "fp32");
at::Device DeviceOf(const launch::Launch& launch, const std::string& backend, const std::string& precision = "fp32");

// Returns a text such as "cpu (2 threads)" or "cuda:0".
std::string Describe(at::Device device);

// Returns the number of cores for each rank of this machine, all ranks having equally many; at least 1.
int64_t ShareOfCores(const launch::Launch& launch);

// Returns the largest amount of memory in use at once, in bytes: on the CPU by this process, on a GPU by tensors since
// the last call of LeastFreeGigabytes.
int64_t PeakMemoryBytes(at::Device device);

// Returns the GiB of a GPU's memory that were free of tensors when tensors used the most, since the last call. Resets
// the peak that PeakMemoryBytes returns.
double LeastFreeGigabytes(at::Device device);

// Throws std::system_error if this process cannot start `count` more threads. Called before libraries start threads
// that end the process or hang if they cannot.
void RequireThreads(int count);

// Sets the number of threads for ATen's operators and starts them. Throws std::system_error if they cannot be started;
// without that check OpenMP would end the process with exit code 1, or LibTorch's pool would wait for ever.
void UseThreads(int count);

// The value of OMP_NUM_THREADS; null if it is not set, or only by a launcher that does so of its own accord.
const char* ToldThreads(const launch::Launch& launch);

// Calls UseThreads with this rank's share of the cores, unless it was told otherwise (ToldThreads).
void UseShareOfCores(const launch::Launch& launch);

// `deterministic`: the same computation gives the same bits each time, on the same kind of GPU with the same libraries.
// Otherwise some algorithms add numbers in the order in which threads arrive. cuDNN takes its own first choice in
// either case; timing several was no faster in training. Applies to the whole process. To be called before anything is
// computed on a GPU, because cuBLAS then reads the environment variable that this sets.
//
// `tolerates_others`: operators that LibTorch lists as nondeterministic run all the same (Family::pools_maxima). Then
// LibTorch's attention adds in varying order, too: it asks its kernels for a fixed one only if it refuses the others.
void ChooseAlgorithms(bool deterministic, bool tolerates_others = false);

}  // namespace dtrain::device
