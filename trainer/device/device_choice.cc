#include "trainer/device/device_choice.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "trainer/errors.h"

namespace dtrain::device {
namespace {

constexpr const char* kOrTheCpu = "or run on the CPU with --backend=gloo";

std::string Capability(const Gpu& gpu) { return std::to_string(gpu.major) + "." + std::to_string(gpu.minor); }

[[noreturn]] void ThrowWhatCudaRefuses(const GpuFacts& facts) {
  const std::string runtime = CudaVersion(facts.runtime_version);
  if (facts.error == "cudaErrorInsufficientDriver") {
    const std::string driver = facts.driver_version == 0
                                   ? "no NVIDIA driver answers"
                                   : "the driver is too old: it is for CUDA " + CudaVersion(facts.driver_version);
    throw UsageError(driver + ", but LibTorch is built for CUDA " + runtime + " (" + facts.error + ")",
                     "install or update the driver, use a LibTorch built for an older CUDA, " + std::string(kOrTheCpu));
  }
  throw UsageError("CUDA " + runtime + " cannot use this machine's GPU: " + facts.error_text + " (" + facts.error + ")",
                   std::string("see what nvidia-smi says, ") + kOrTheCpu);
}

[[noreturn]] void ThrowTooFewGpus(const GpuFacts& facts, const RankPlace& place) {
  const std::string gpus =
      facts.gpus.empty() ? "no GPU" : std::to_string(facts.gpus.size()) + " GPU" + (facts.gpus.size() > 1 ? "s" : "");
  throw UsageError(
      "local rank " + std::to_string(place.local_rank) + " of " + std::to_string(place.local_world_size) +
          " has no GPU: this machine has " + gpus + " that can be used",
      "lower --nproc_per_node to the number of GPUs, check CUDA_VISIBLE_DEVICES, " + std::string(kOrTheCpu));
}

// "0,2" counts as two. As in CUDA, a negative entry hides itself and all entries after it.
int CountVisible(const std::string& visible) {
  int count = 0;
  for (size_t begin = 0; begin < visible.size();) {
    const size_t end = std::min(visible.find(',', begin), visible.size());
    if (end == begin || visible[begin] == '-') break;
    ++count;
    begin = end + 1;
  }
  return count;
}

}  // namespace

std::string CudaVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

NoGpu WhyNoGpu(const GpuSigns& signs, const std::string& backend) {
  if (backend == "gloo") return {"--backend=gloo computes on the CPU", "leave it out"};
  if (!signs.in_machine) {
    return {"this machine has no GPU that can be used", "see what nvidia-smi and dtrain_main --doctor say"};
  }
  if (!signs.built_with_cuda) {
    return {"this build does not support the GPU that this machine has",
            "run scripts/setup.sh and scripts/build.sh again: with NVIDIA's driver 580 or newer they build for GPUs; "
            "or use "
            "a build with CUDA"};
  }
  return {"this machine has a GPU that this process may not use",
          "check CUDA_VISIBLE_DEVICES, and the container's --gpus"};
}

int CountUsableGpus(std::optional<int> of_driver, int device_files, const char* visible) {
  const int there = of_driver.value_or(device_files);
  return visible != nullptr ? std::min(there, CountVisible(visible)) : there;
}

bool CanRunOn(const std::string& architectures, int major, int minor) {
  const int capability = 10 * major + minor;
  std::istringstream entries(architectures);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const int compiled = std::atoi(entry.c_str());
    const bool machine_code = entry.find("-virtual") == std::string::npos;
    const bool portable = entry.find("-real") == std::string::npos;
    if (portable && capability >= compiled) return true;
    if (machine_code && compiled / 10 == major && capability >= compiled) return true;
  }
  return false;
}

std::optional<int> ChooseGpu(const GpuFacts& facts, const RankPlace& place, const std::string& backend,
                             const std::string& precision) {
  if (backend == "gloo") return std::nullopt;
  const bool none = facts.error.empty() || facts.error == "cudaErrorNoDevice";
  if (!none) ThrowWhatCudaRefuses(facts);
  if (facts.gpus.empty() && backend != "nccl") return std::nullopt;
  // A rank that sees only one GPU takes it, whatever its local rank. RequireDistinctGpus checks later that all differ.
  int index = facts.gpus.size() == 1 && place.sees_its_own_gpu_only ? 0 : place.local_rank;
  if (place.may_share_gpus) index %= std::max(1, static_cast<int>(facts.gpus.size()));
  if (index >= static_cast<int>(facts.gpus.size())) ThrowTooFewGpus(facts, place);
  const Gpu& gpu = facts.gpus[static_cast<size_t>(index)];
  if (!CanRunOn(facts.architectures, gpu.major, gpu.minor)) {
    throw UsageError(gpu.name + " (compute capability " + Capability(gpu) +
                         ") is too old for this build, which is for " + facts.architectures,
                     "build with its architecture in -DDTRAIN_CUDA_ARCHITECTURES and a LibTorch that has it too (7.0 "
                     "needs one for CUDA 12), " +
                         std::string(kOrTheCpu));
  }
  constexpr int kAmpere = 8;  // the first with bf16 in hardware
  if (precision == "bf16" && gpu.major < kAmpere) {
    throw UsageError(
        "--precision=bf16 needs a GPU of compute capability 8.0 or newer; " + gpu.name + " has " + Capability(gpu),
        "--precision=fp16 is fast there");
  }
  return index;
}

std::string SharedGpu(const std::vector<RankGpu>& ranks) {
  std::map<std::pair<std::string, std::string>, const RankGpu*> owners;
  for (const RankGpu& rank : ranks) {
    if (rank.pci_id.empty()) continue;
    const auto [owner, is_first] = owners.emplace(std::pair(rank.machine, rank.uuid), &rank);
    if (is_first) continue;
    return "ranks " + std::to_string(owner->second->rank) + " and " + std::to_string(rank.rank) +
           " compute on the same GPU " + rank.pci_id + " of " + rank.host;
  }
  return "";
}

}  // namespace dtrain::device
