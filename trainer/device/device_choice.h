// Decides which GPU a rank computes on, from the facts that CUDA reports about the machine. These are pure functions,
// so that tests of machines with unsuitable GPUs need no GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dtrain::device {

struct Gpu {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  int major = 0;     // of the compute capability: 9 of 9.0
  int minor = 0;
  std::string pci_id;  // "0000:17:00.0"
  std::string uuid;    // of this GPU, or of the part of one that the process sees as a GPU (MIG); hexadecimal digits
};

struct GpuFacts {
  int driver_version = 0;     // the newest CUDA that the driver supports, 12040 for 12.4; 0 without a driver
  int runtime_version = 0;    // the version of the CUDA that LibTorch uses, likewise
  std::string error;          // CUDA's name of an error, "cudaErrorInsufficientDriver"; empty if there was none
  std::string error_text;     // CUDA's description of that error
  std::vector<Gpu> gpus;      // the GPUs that this process may use; empty after an error
  std::string architectures;  // the architectures that the kernels were compiled for: "75-real,80-real,90"
};

// "13.0" of CUDA's number 13000
std::string CudaVersion(int version);

// What can be seen of GPUs without CUDA.
struct GpuSigns {
  bool in_machine = false;       // the driver has made a device file, or WSL2 lends the GPU of Windows
  bool built_with_cuda = false;  // libdtrain_cuda.so is there
};

// Why a process does not compute on a GPU, and what would change it. All who say so use these words.
struct NoGpu {
  std::string what, remedy;
};
NoGpu WhyNoGpu(const GpuSigns& signs, const std::string& backend);

struct RankPlace {
  int local_rank = 0;
  int local_world_size = 1;
  // Whether the launcher has limited this rank to one GPU, for example by CUDA_VISIBLE_DEVICES.
  bool sees_its_own_gpu_only = false;
  bool may_share_gpus = false;  // see Launch
};

// Returns an index into facts.gpus. Returns empty, which means the CPU, if `backend` (auto | nccl | gloo) is gloo, or
// is auto and there is no GPU. Throws UsageError, which names versions, GPUs and what to do, if there are more local
// ranks than GPUs, the driver is too old for this CUDA, the GPU is too old for this build or for `precision` (a value
// of --precision), or CUDA fails otherwise.
std::optional<int> ChooseGpu(const GpuFacts& facts, const RankPlace& place, const std::string& backend,
                             const std::string& precision = "fp32");

// Returns the number of GPUs that this process may use: of those that the driver counts (of the device files, if there
// is no answer), no more than `visible`, the value of CUDA_VISIBLE_DEVICES or null, names. The driver of WSL2 has GPUs
// without device files.
int CountUsableGpus(std::optional<int> of_driver, int device_files, const char* visible);

// Whether code compiled for `architectures` runs on a GPU of this compute capability. Machine code (an entry without
// "-virtual") runs on the same major version from its minor version on; portable code (an entry without "-real") runs
// on every version from its own on.
bool CanRunOn(const std::string& architectures, int major, int minor);

struct RankGpu {
  int rank = 0;
  std::string host;     // the machine's name for people
  std::string machine;  // identifies the machine; see MachineId
  std::string pci_id;   // these two are empty for the CPU
  std::string uuid;
};

// Returns a text that names two ranks which compute on the same GPU or the same part of one, or an empty string if
// there are no two.
std::string SharedGpu(const std::vector<RankGpu>& ranks);

}  // namespace dtrain::device
