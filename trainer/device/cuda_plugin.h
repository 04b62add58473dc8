// Everything that needs a GPU (LibTorch's CUDA half, NCCL, kernels) is in a shared library of its own,
// libdtrain_cuda.so, built with DTRAIN_CUDA. It is loaded only on machines with a GPU. On other machines the same
// binary starts in a third of the time, and runs without any of CUDA's libraries.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <string>

#include "data/image/prepare_images.h"
#include "models/device_kernels.h"
#include "models/kernels/philox.h"
#include "trainer/device/device_choice.h"
#include "trainer/optim/optimizer.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace dtrain::device {

// Work that a device records once and replays at a single call (a CUDA graph), so that the host need not start hundreds
// of kernels in every step.
//
// Recorded work must not wait for the device, and its tensors must be at the same addresses at each replay. Recordings
// share one memory: a tensor that the work creates and that outlives it holds what the last replay of the same
// recording wrote, until another one is replayed.
class DeviceGraphs {
 public:
  using Work = std::function<void()>;

  virtual ~DeviceGraphs() = default;

  // Calls `work` without recording it. On the device it runs after everything that the caller has started before, and
  // before everything that the caller starts afterwards.
  virtual void Run(const Work& work) = 0;

  // Calls `work` and records what it starts on the device, without running it there. Returns a function that runs the
  // recorded work on the device, in the same order with the caller's work as Run; the recording lives as long as that
  // function, which must not outlive this object. Throws what `work` throws, and c10::Error if it does something that
  // cannot be recorded. Then the device has computed nothing, and its random generator is as before.
  virtual Work Record(const Work& work) = 0;

  // Whether another recording fits into the device's free memory, together with work that is not recorded: both need as
  // much as Run has needed so far, but recordings share their memory. Waits for the device.
  virtual bool HasRoom() = 0;
};

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

// Returns what can be seen of this machine's GPUs.
GpuSigns SeeGpus();

// Returns the number of GPUs that this process may use (CountUsableGpus); 0 without the library. Asks NVML and not
// CUDA, because a process that has initialised CUDA cannot fork any more.
int CountGpus();

// These return what runs on `device`; null for the CPU.
data::DeviceNormalisation NormalisationOn(at::Device device);
models::DeviceKernels KernelsOn(at::Device device);
optim::AdamKernel AdamKernelOn(at::Device device);

// These are in libdtrain_cuda.so.
// Returns an object without recordings for `device`, which must be the current device.
std::unique_ptr<DeviceGraphs> MakeCudaGraphs(at::Device device);
// Takes random numbers for one launch of a kernel of this project from LibTorch's default generator of the current
// device. So they follow its seed, its saved states, and recorded graphs.
models::kernels::RandomState CudaRandom();

}  // namespace dtrain::device
