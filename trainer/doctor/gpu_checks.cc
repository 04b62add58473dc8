#include "trainer/doctor/doctor.h"

#include <dlfcn.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "data/joined.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"

namespace dtrain::doctor {
namespace {

int CountEfaAdapters() {
  constexpr const char* kAmazon = "0x1d0f";
  int count = 0;
  std::error_code none;
  for (const auto& adapter : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
    std::ifstream file(adapter.path() / "device" / "vendor");
    std::string vendor;
    if (file >> vendor && vendor == kAmazon) ++count;
  }
  return count;
}

// Whether a shell command exits with 0.
bool Succeeds(const std::string& command) {
  const int status = std::system((command + " >/dev/null 2>&1").c_str());  // NOLINT(cert-env33-c): constants only
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool CanLoad(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

}  // namespace

Finding JudgeDevice(const device::GpuFacts& facts, const device::RankPlace& place, const std::string& backend,
                    const device::GpuSigns& signs, const std::string& precision) {
  constexpr const char* kCheck = "device";
  return Tried(kCheck, [&] {
    const auto index = device::ChooseGpu(facts, place, backend, precision);
    if (index) {
      const device::Gpu& gpu = facts.gpus[static_cast<size_t>(*index)];
      return Ok(kCheck, gpu.name + " at " + gpu.pci_id + ", one of " + std::to_string(facts.gpus.size()) +
                            "; the driver is for CUDA " + device::CudaVersion(facts.driver_version) +
                            ", LibTorch for " + device::CudaVersion(facts.runtime_version));
    }
    if (!signs.in_machine || backend == "gloo") return Ok(kCheck, "the CPU");
    const device::NoGpu why = device::WhyNoGpu(signs, backend);
    return Warning(kCheck, "the CPU; " + why.what, why.remedy);
  });
}

Finding JudgeNccl(int version) {
  if (version == 0) {
    return Failed("NCCL", ExitCode::kUsage, "its library is not found",
                  "install the LibTorch with CUDA that this was built with: it brings NCCL along");
  }
  return Ok("NCCL", std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
                        std::to_string(version % 100));
}

Finding JudgeEfa(const EfaFacts& facts, int nnodes) {
  constexpr const char* kCheck = "EFA";
  if (facts.adapters == 0) return Ok(kCheck, "no adapter; NCCL uses the network that it finds");
  const std::string adapters = CountOf(facts.adapters, "adapter");
  if (nnodes == 1) return Ok(kCheck, adapters + ", not needed on one machine");
  if (!facts.has_fi_info) {
    return Warning(kCheck, adapters + ", but there is no fi_info to test them",
                   "install EFA's software (docker/Dockerfile: --build-arg EFA=VERSION)");
  }
  if (!facts.provider_works) {
    return Warning(kCheck, adapters + ", but 'fi_info -p efa' finds no provider: NCCL would use sockets",
                   "pass the devices to the container, and let the security group allow all traffic within itself");
  }
  if (!facts.has_plugin) {
    return Warning(kCheck, adapters + " work, but NCCL has no plugin for them and would use sockets",
                   "install aws-ofi-nccl and have its folder in LD_LIBRARY_PATH");
  }
  return Ok(kCheck, adapters + "; provider and NCCL's plugin are there");
}

Finding LookAtDevice(const launch::Launch& launch, const config::Config& config, bool* on_gpu) {
  const std::string& backend = config.ranks.backend;
  *on_gpu = false;
  return Tried("device", [&] {
    const bool look = backend != "gloo" && device::CountGpus() > 0;
    const device::GpuFacts facts = look ? device::LoadCudaPlugin().probe() : device::GpuFacts{};
    const Finding finding =
        JudgeDevice(facts, device::PlaceOf(launch), backend, device::SeeGpus(), config.precision.name);
    *on_gpu = finding.verdict != Verdict::kFailed && !facts.gpus.empty();
    return finding;
  });
}

Finding LookAtNccl() {
  int version = 0;
  // This is LibTorch's copy, which libdtrain_cuda.so has loaded.
  void* library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  using GetVersion = int (*)(int*);
  const auto get = library == nullptr ? nullptr : reinterpret_cast<GetVersion>(dlsym(library, "ncclGetVersion"));
  if (get == nullptr || get(&version) != 0) version = 0;
  return JudgeNccl(version);
}

Finding LookAtEfa(int nnodes) {
  EfaFacts facts;
  facts.adapters = CountEfaAdapters();
  if (facts.adapters > 0) {
    facts.has_fi_info = Succeeds("command -v fi_info");
    facts.provider_works = facts.has_fi_info && Succeeds("timeout 20 fi_info -p efa");
    facts.has_plugin = CanLoad("libnccl-net.so") || CanLoad("libnccl-net-ofi.so");
  }
  return JudgeEfa(facts, nnodes);
}

}  // namespace dtrain::doctor
