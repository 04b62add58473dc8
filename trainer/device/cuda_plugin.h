// What only a machine with a GPU needs: LibTorch's CUDA half and NCCL, in a shared library of its own
// (libdtrain_cuda.so, built with DTRAIN_CUDA). It is loaded where there is a GPU and nowhere else: on a machine without
// one the same binary starts in a third of the time, and runs without any of CUDA's libraries.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "data/image/interpolation.h"
#include "data/image/prepare_images.h"
#include "data/pipeline/device_batch.h"
#include "models/norm_relu.h"
#include "trainer/device/device_choice.h"
#include "trainer/device/device_graph.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace dtrain::distributed {

// A decoder for JPEGs on a GPU, or why there is none, and what to do.
struct GpuImageDecoder {
  std::unique_ptr<data::DeviceImageDecoder> decoder;
  std::string problem, hint;
};

struct CudaPlugin {
  // What CUDA says about this machine. Does not throw: what CUDA refuses is in the facts.
  GpuFacts (*probe)();
  // Makes `index` the current device of this thread, and of the threads that it starts.
  void (*set_device)(int index);
  // NCCL between this rank's GPU and those of the others; `timeout_seconds` for each collective.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                                 at::Device device, double timeout_seconds);
  // What c10d has recorded of the last collectives. Asks the GPU about those under way, and may hang with it.
  std::string (*flight_record)();
  // The kernel that prepares images (data/kernels). `images` are on the current device.
  data::DeviceNormalisation normalise_images;
  // The kernels of BatchNorm + addition + ReLU (models/kernels), on the current device.
  models::NormReluDevice norm_relu;
  // Records on a stream of its own of `device`, the current one.
  std::unique_ptr<DeviceGraph> (*make_graph)(at::Device device);
  // nvJPEG (data/nvjpeg), for the current device.
  GpuImageDecoder (*make_image_decoder)(at::Device device, data::Interpolation interpolation);
};

// Loads the library, once per process; not before a fork. Throws UsageError where it is there and cannot be loaded (a
// library that is missing, another LibTorch than the one it was built with).
const CudaPlugin& LoadCudaPlugin();

// Whether the library was built.
bool HasCudaPlugin();

// GPUs of this machine that this process may use, counted without touching CUDA (a process that has touched it cannot
// fork any more): the entries of CUDA_VISIBLE_DEVICES, or the device files. 0 where the library was not built.
int CountGpus();

// The kernel for `device`; null on the CPU.
data::DeviceNormalisation NormalisationOn(at::Device device);

// The kernels of --fused_norm. Throws UsageError on the CPU, which has none.
const models::NormReluDevice& NormReluOn(at::Device device);

// What decodes JPEGs on `device`, the current one. Throws UsageError on the CPU, and where nvJPEG is missing.
std::unique_ptr<data::DeviceImageDecoder> ImageDecoderOn(at::Device device, data::Interpolation interpolation);

}  // namespace dtrain::distributed
