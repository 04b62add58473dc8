// CUDA enters through cuda_plugin.h and nowhere else.
#include "trainer/distributed/device.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>

#include "data/cores.h"
#include "trainer/distributed/cuda_plugin.h"
#include "trainer/errors.h"

namespace dtrain::distributed {

at::Device DeviceOf(const launch::Launch& launch, const std::string& backend) {
  if (backend == "gloo") return at::kCPU;
  const int gpus = CountGpus() > 0 ? LoadCudaPlugin().device_count() : 0;
  if (gpus == 0 && backend != "nccl") return at::kCPU;
  const int gpu = launch.gpu >= 0 ? launch.gpu : launch.local_rank;
  if (gpu >= gpus) {
    throw UsageError("local rank " + std::to_string(launch.local_rank) + " has no GPU: this machine has " +
                         std::to_string(gpus) + " that can be used",
                     "lower --nproc_per_node, check CUDA_VISIBLE_DEVICES, or run on the CPU with --backend=gloo");
  }
  LoadCudaPlugin().set_device(gpu);
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu));
}

std::string Describe(at::Device device) {
  if (!device.is_cpu()) return device.str();
  return device.str() + " (" + std::to_string(at::get_num_threads()) + " threads)";
}

int64_t ShareOfCores(const launch::Launch& launch) {
  return std::max<int64_t>(1, data::AvailableCores() / std::max(1, launch.local_world_size));
}

void UseShareOfCores(const launch::Launch& launch) {
  if (launch.launcher != "torchrun" && std::getenv("OMP_NUM_THREADS") != nullptr) return;
  at::set_num_threads(static_cast<int>(ShareOfCores(launch)));
}

}  // namespace dtrain::distributed
