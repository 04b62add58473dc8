// Everything that needs a GPU (LibTorch's CUDA half, NCCL, kernels) is in a shared library of its own,
// libdtrain_cuda.so, built with DTRAIN_CUDA. It is loaded only on machines with a GPU. On other machines the same
// binary starts in a third of the time, and runs without any of CUDA's libraries.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "data/image/prepare_images.h"
#include "models/device_kernels.h"
#include "trainer/device/device_choice.h"
#include "trainer/device/device_graph.h"
#include "trainer/optim/optimizer.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace dtrain::device {

// The functions that the library exports. They throw c10::Error if CUDA fails, unless they say otherwise.
struct CudaPlugin {
  // Asks CUDA about this machine. Does not throw: an error of CUDA is one of the facts.
  GpuFacts (*probe)();
  // Makes `index` the current device of the calling thread.
  void (*set_device)(int index);
  // Returns an NCCL backend for this rank's GPU and those of the other ranks. Each collective has `timeout_seconds`.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                                 at::Device device, double timeout_seconds);
  // Returns c10d's record of the last collectives. It asks the GPU about unfinished collectives, and may hang.
  std::string (*flight_record)();
  // Runs the kernel that normalises images (data/kernels). `images` are on the current device.
  data::DeviceNormalisation normalise_images;
  // Run the kernels of models (models/kernels) on the current device.
  models::NormKernels norm;
  models::StemKernels stem;
  models::DepthwiseKernels depthwise;
  models::TextKernels text;
  // Runs the kernel of Adam (trainer/optim/kernels) on the current device.
  optim::AdamKernel adam;
  // Returns an object for `device`, which must be the current device, with a stream of its own and without recordings.
  std::unique_ptr<DeviceGraphs> (*make_graphs)(at::Device device);
};

// Loads the library on the first call; must not be called before a fork. Throws UsageError if the library cannot be
// loaded, because a library that it needs is missing or it was built with another LibTorch. Any thread.
const CudaPlugin& LoadCudaPlugin();

// Whether the library is there. It is not if it was not built.
bool HasCudaPlugin();

// Returns what can be seen of this machine's GPUs.
GpuSigns SeeGpus();

// Returns the number of GPUs that this process may use (CountUsableGpus); 0 without the library. Asks NVML and not
// CUDA, because a process that has initialised CUDA cannot fork any more.
int CountGpus();

// These return what runs on `device`; null for the CPU.
data::DeviceNormalisation NormalisationOn(at::Device device);
models::DeviceKernels KernelsOn(at::Device device);
optim::AdamKernel AdamKernelOn(at::Device device);

}  // namespace dtrain::device
