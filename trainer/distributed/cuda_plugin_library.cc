// libdtrain_cuda.so: the only file that is linked with CUDA and NCCL.
#include <c10/cuda/CUDAFunctions.h>

#include <chrono>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "trainer/distributed/cuda_plugin.h"

namespace dtrain::distributed {
namespace {

c10::intrusive_ptr<c10d::Backend> MakeNccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                           double timeout_seconds) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world_size, options);
}

}  // namespace

extern "C" const CudaPlugin dtrain_cuda_plugin = {
    .device_count = [] { return static_cast<int>(c10::cuda::device_count()); },
    .set_device = [](int index) { c10::cuda::set_device(static_cast<c10::DeviceIndex>(index)); },
    .make_nccl = &MakeNccl,
};

}  // namespace dtrain::distributed
