// Checks of the GPU with its driver and LibTorch's CUDA, of NCCL, and of NCCL's network between machines (EFA).
#pragma once

#include <string>

#include "trainer/device/device_choice.h"
#include "trainer/doctor/finding.h"
#include "trainer/launch/launch.h"

namespace dtrain::doctor {

struct DeviceFiles {
  bool built_with_cuda = false;  // libdtrain_cuda.so exists
  bool in_dev = false;           // /dev/nvidia0 exists
};

// Names the device that the rank computes on, or the reason why it cannot.
Finding JudgeDevice(const distributed::GpuFacts& facts, const distributed::RankPlace& place, const std::string& backend,
                    const DeviceFiles& files);

// `version` is that of ncclGetVersion (22907 is 2.29.7); 0: the library was not found.
Finding JudgeNccl(int version);

struct EfaFacts {
  int adapters = 0;             // Amazon's adapters in /sys/class/infiniband
  bool has_fi_info = false;     // libfabric's tool fi_info is on the PATH
  bool provider_works = false;  // `fi_info -p efa` lists it
  bool has_plugin = false;      // the library of aws-ofi-nccl can be loaded
};
Finding JudgeEfa(const EfaFacts& facts, int nnodes);

// These look at the machine. LookAtDevice initialises CUDA if there is a GPU, and sets `*on_gpu` to whether the rank
// computes on one.
Finding LookAtDevice(const launch::Launch& launch, const std::string& backend, bool* on_gpu);
Finding LookAtNccl();
Finding LookAtEfa(int nnodes);

}  // namespace dtrain::doctor
