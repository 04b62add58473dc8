// GPUs against the driver and LibTorch's CUDA; NCCL, and the way it has to other machines.
#pragma once

#include <string>

#include "trainer/device/device_choice.h"
#include "trainer/doctor/finding.h"
#include "trainer/launch/launch.h"

namespace dtrain::doctor {

struct DeviceFiles {
  bool built_with_cuda = false;  // libdtrain_cuda.so is there
  bool in_dev = false;           // /dev/nvidia0 is
};

// Which device the rank computes on, and whether it can.
Finding JudgeDevice(const distributed::GpuFacts& facts, const distributed::RankPlace& place, const std::string& backend,
                    const DeviceFiles& files);

// `version` as ncclGetVersion has it (22907); 0: the library was not found.
Finding JudgeNccl(int version);

struct EfaFacts {
  int adapters = 0;             // of Amazon, in /sys/class/infiniband
  bool has_fi_info = false;     // libfabric's tool is on the PATH
  bool provider_works = false;  // `fi_info -p efa` lists it
  bool has_plugin = false;      // aws-ofi-nccl's library can be loaded
};
Finding JudgeEfa(const EfaFacts& facts, int nnodes);

// These ask the machine. The first touches CUDA where there is a GPU; `on_gpu` says whether the rank computes on one.
Finding LookAtDevice(const launch::Launch& launch, const std::string& backend, bool* on_gpu);
Finding LookAtNccl();
Finding LookAtEfa(int nnodes);

}  // namespace dtrain::doctor
