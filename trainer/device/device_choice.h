// Which GPU a rank computes on, decided from what CUDA says about the machine. Pure functions of these facts: no GPU is
// needed to test what happens on a machine that has the wrong ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::distributed {

struct Gpu {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  int major = 0;     // compute capability 9.0
  int minor = 0;
  std::string pci_id;  // "0000:17:00.0"
};

struct GpuFacts {
  int driver_version = 0;     // the newest CUDA that the driver can run, as CUDA counts: 12040 is 12.4; 0: no driver
  int runtime_version = 0;    // of the CUDA that LibTorch came with
  std::string error;          // CUDA's name of what went wrong, "cudaErrorInsufficientDriver"; empty: nothing
  std::string error_text;     // and its sentence
  std::vector<Gpu> gpus;      // those that this process may use
  std::string architectures;  // what the kernels were compiled for: "75-real,80-real,90"
};

struct RankPlace {
  int local_rank = 0;
  int local_world_size = 1;
  // CUDA_VISIBLE_DEVICES names one GPU, as launchers set it that give each rank its own.
  bool sees_its_own_gpu_only = false;
};

// Index into facts.gpus; nullopt: the CPU, where there is no GPU and `backend` (auto | nccl | gloo) does not ask for
// one. Throws UsageError, naming versions, GPUs and what to do: more local ranks than GPUs, a driver too old for CUDA,
// a GPU too old for the build, and whatever else CUDA refuses.
std::optional<int> ChooseGpu(const GpuFacts& facts, const RankPlace& place, const std::string& backend);

// A machine code of the same major version runs on that minor version and later ones; portable code (an entry without
// "-real") on everything from its version on.
bool CanRunOn(const std::string& architectures, int major, int minor);

// Where a rank computes: `machine` tells machines apart, `host` is its name for people.
struct RankGpu {
  int rank = 0;
  std::string host;
  std::string machine;
  std::string pci_id;  // empty: on the CPU
};

// Names two ranks that compute on the same GPU; empty: there are none.
std::string SharedGpu(const std::vector<RankGpu>& ranks);

}  // namespace dtrain::distributed
