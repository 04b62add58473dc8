#include "trainer/doctor/doctor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "data/joined.h"
#include "data/machine/limits.h"
#include "data/whole_number.h"
#include "trainer/checkpoint/durable_file.h"
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

// Removes a file when it goes out of scope.
class Removed {
 public:
  explicit Removed(fs::path path) : path_(std::move(path)) {}
  ~Removed() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Removed(const Removed&) = delete;
  Removed& operator=(const Removed&) = delete;

 private:
  const fs::path path_;
};

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
  facts.folder = report::NearestFolder(run_directory.empty() ? "runs" : run_directory);
  if (!fs::is_directory(facts.folder)) {
    throw StorageError("the run directory " + facts.folder.string() + " is a file", "choose another --run_dir");
  }
  std::error_code error;
  facts.free_bytes = static_cast<int64_t>(fs::space(facts.folder, error).available);
  if (error) checkpoint::ThrowSystemError("look at", facts.folder, error.value());
  const fs::path path = facts.folder / (".doctor." + std::to_string(getpid()));
  const Removed removed(path);
  const std::string bytes(kProbeBytes, 'd');
  const auto begin = std::chrono::steady_clock::now();
  checkpoint::DurableFile file(path);
  file.Append(bytes);
  file.Finish();
  facts.bytes_per_second = static_cast<double>(kProbeBytes) / std::max(report::SecondsSince(begin), 1e-6);
  return facts;
}

}  // namespace dtrain::doctor
