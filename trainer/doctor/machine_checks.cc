#include "trainer/doctor/doctor.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "data/joined.h"
#include "data/machine/limits.h"
#include "data/whole_number.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/resolve.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/report/run_directory.h"

namespace dtrain::doctor {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMiB = 1 << 20;

std::string Megabytes(uint64_t bytes) { return std::to_string(bytes / kMiB) + " MiB"; }

constexpr size_t kProbeBytes = size_t{16} << 20;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kMB = 1e6;

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

Finding JudgeThreads(const Threads& threads) {
  constexpr const char* kCheck = "threads";
  const std::string what = CountOf(threads.local_ranks, "local rank") + (threads.local_ranks == 1 ? "" : ", each") +
                           " with " + CountOf(threads.compute_threads, "thread") + " to compute and " +
                           CountOf(threads.workers, "worker") + ", on " + std::to_string(threads.available_cores) +
                           " of " + CountOf(threads.machine_cores, "core");
  if (threads.local_ranks > threads.available_cores) {
    return Warning(kCheck, what,
                   "start fewer local ranks, give the container more cores, or, if mpirun or srun has bound each rank "
                   "to some cores, use --bind-to none or --cpu-bind=none");
  }
  if (threads.local_ranks * threads.compute_threads > threads.available_cores) {
    return Warning(kCheck, what, "lower OMP_NUM_THREADS: threads without a core wait for each other");
  }
  if (threads.local_ranks * threads.workers > 2 * threads.available_cores) {
    return Warning(kCheck, what, "lower --workers: threads without a core wait for each other");
  }
  return Ok(kCheck, what);
}

Finding JudgeOpenFiles(uint64_t limit, int world_size) {
  const uint64_t needed = 1024 + 4 * static_cast<uint64_t>(world_size);
  const std::string what =
      limit == RLIM_INFINITY ? "as many as the system has" : std::to_string(limit) + " may be open";
  if (limit >= needed) return Ok("open files", what);
  return Warning("open files", what, "raise the hard limit to " + std::to_string(needed) + " or more (ulimit -Hn)");
}

Finding JudgeLockedMemory(uint64_t limit_bytes, bool has_rdma) {
  constexpr const char* kCheck = "locked memory";
  const std::string what = limit_bytes == RLIM_INFINITY ? "unlimited" : Megabytes(limit_bytes) + " at most";
  if (!has_rdma) return Ok(kCheck, what + ", and there is no adapter that needs it");
  if (limit_bytes == RLIM_INFINITY) return Ok(kCheck, what);
  return Warning(kCheck, what + ": the network adapter cannot register its buffers",
                 "set ulimit -l unlimited; in a container --ulimit memlock=-1, Batch's ulimits, or Slurm's "
                 "PropagateResourceLimitsExcept=MEMLOCK");
}

Finding JudgeSharedMemory(int64_t free_bytes, int local_ranks, bool on_gpus) {
  constexpr const char* kCheck = "shared memory";
  constexpr int64_t kPerRank = int64_t{128} * kMiB;
  if (free_bytes < 0) return Warning(kCheck, "there is no /dev/shm", "mount a tmpfs there");
  const std::string what = Megabytes(static_cast<uint64_t>(free_bytes)) + " free in /dev/shm";
  if (!on_gpus || local_ranks == 1) return Ok(kCheck, what + "; nothing here needs it");
  if (free_bytes >= kPerRank * local_ranks) return Ok(kCheck, what);
  return Warning(
      kCheck, what + ": NCCL may find too little for " + std::to_string(local_ranks) + " local ranks",
      "in a container use --shm-size=1g or more, in Kubernetes mount an emptyDir with medium: Memory at /dev/shm");
}

Threads CountThreads(const launch::Launch& launch, int64_t workers) {
  Threads threads;
  threads.machine_cores = std::max(1U, std::thread::hardware_concurrency());
  threads.available_cores = data::AvailableCores();
  threads.local_ranks = launch.local_world_size;
  const int64_t share = device::ShareOfCores(launch);
  const char* told = device::ToldThreads(launch);
  threads.compute_threads = told == nullptr ? share : data::WholeNumber(told).value_or(share);
  threads.workers = workers > 0 ? workers : share;
  return threads;
}

bool HasRdma() {
  std::error_code none;
  return std::filesystem::directory_iterator("/sys/class/infiniband", none) != std::filesystem::directory_iterator();
}

Finding JudgeDisk(const DiskFacts& facts) {
  constexpr const char* kCheck = "disk";
  constexpr double kLittle = 2 * kGiB, kSlow = 20 * kMB;
  const auto free_bytes = static_cast<double>(facts.free_bytes);
  const std::string what = facts.folder.string() + report::Format(": %.1f GiB free, %.0f MB/s written and synced",
                                                                  free_bytes / kGiB, facts.bytes_per_second / kMB);
  if (free_bytes < kLittle) {
    return Warning(kCheck, what, "free some, or choose another --run_dir: --keep_checkpoints checkpoints must fit");
  }
  if (facts.bytes_per_second < kSlow) {
    return Warning(kCheck, what, "choose a faster disk for --run_dir, or save less often (--save_every_epochs)");
  }
  return Ok(kCheck, what);
}

DiskFacts MeasureDisk(const fs::path& run_directory) {
  DiskFacts facts;
  facts.folder = report::NearestFolder(run_directory.empty() ? config::kRuns : run_directory);
  if (!fs::is_directory(facts.folder)) {
    throw StorageError("the run directory " + facts.folder.string() + " is a file", "choose another --run_dir");
  }
  std::error_code error;
  facts.free_bytes = static_cast<int64_t>(fs::space(facts.folder, error).available);
  if (error) checkpoint::ThrowSystemError("look at", facts.folder, error.value());
  const fs::path path = facts.folder / (".doctor." + std::to_string(getpid()));
  const std::shared_ptr<void> removed_at_the_end(nullptr, [&](void*) { fs::remove(path, error); });
  const std::string bytes(kProbeBytes, 'd');
  const auto begin = std::chrono::steady_clock::now();
  checkpoint::DurableFile file(path);
  file.Append(bytes);
  file.Finish();
  facts.bytes_per_second = static_cast<double>(kProbeBytes) / std::max(report::SecondsSince(begin), 1e-6);
  return facts;
}

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
