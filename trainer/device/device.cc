// All calls of CUDA go through cuda_plugin.h.
#include "trainer/device/device.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <latch>
#include <string_view>
#include <vector>

#include "data/joined.h"
#include "data/machine/limits.h"
#include "data/machine/thread.h"
#include "data/signals.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device_choice.h"

namespace dtrain::device {
namespace {

bool SeesItsOwnGpuOnly() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && *visible != '\0' && std::string(visible).find(',') == std::string::npos;
}

std::atomic<int> rank_gpu = 0;

// CUDA gives a thread that has chosen no GPU the first one, and makes half a GiB of state there for this process. That
// happens wherever a thread allocates pinned memory or waits for a copy.
void TakeRankGpu() {
  try {
    LoadCudaPlugin().set_device(rank_gpu);
  } catch (const std::exception&) {  // a GPU that is lost says so where it is used
  }
}

}  // namespace

RankPlace PlaceOf(const launch::Launch& launch) {
  return {launch.local_rank, launch.local_world_size, launch.gpu == 0 || SeesItsOwnGpuOnly(), launch.may_share_gpus};
}

RankDevice ChooseDevice(const launch::Launch& launch, const std::string& backend, const std::string& precision) {
  const bool look = backend != "gloo" && CountGpus() > 0;
  const GpuFacts facts = look ? LoadCudaPlugin().probe() : GpuFacts{};
  const auto index = ChooseGpu(facts, PlaceOf(launch), backend, precision);
  if (!index) return {at::kCPU, {}};
  LoadCudaPlugin().set_device(*index);
  rank_gpu = *index;
  data::first_in_threads = &TakeRankGpu;
  return {at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(*index)), facts.gpus[static_cast<size_t>(*index)]};
}

at::Device DeviceOf(const launch::Launch& launch, const std::string& backend, const std::string& precision) {
  return ChooseDevice(launch, backend, precision).device;
}

std::string Describe(at::Device device) {
  if (!device.is_cpu()) return device.str();
  return device.str() + " (" + CountOf(at::get_num_threads(), "thread") + ")";
}

int64_t ShareOfCores(const launch::Launch& launch) {
  return std::max<int64_t>(1, data::AvailableCores() / std::max(1, launch.local_world_size));
}

int64_t PeakMemoryBytes(at::Device device) {
  if (device.is_cpu()) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return int64_t{1024} * usage.ru_maxrss;
  }
  const auto statistics = at::accelerator::getDeviceStats(device.index());
  return statistics.allocated_bytes[static_cast<size_t>(at::CachingAllocator::StatType::AGGREGATE)].peak;
}

double LeastFreeGigabytes(at::Device device) {
  constexpr double kBytes = 1024.0 * 1024.0 * 1024.0;
  const size_t total = at::accelerator::getMemoryInfo(device.index()).second;
  const double free = static_cast<double>(total) - static_cast<double>(PeakMemoryBytes(device));
  at::accelerator::resetPeakStats(device.index());
  return free / kBytes;
}

void RequireThreads(int count) {
  std::latch all_started(count);
  std::vector<data::Thread> threads;
  for (int i = 0; i < count; ++i) {
    try {
      threads.emplace_back([&all_started] { all_started.wait(); });
    } catch (...) {
      all_started.count_down(count);
      throw;
    }
  }
  all_started.count_down(count);
}

namespace {

// Makes OpenMP start its threads now, before other libraries use up the number of threads that is allowed. They get no
// signals, whose handlers have a stack of their own only on the main thread (loop/stop_signal.cc).
void StartThreads(int count) {
  sigset_t handled, before;
  sigemptyset(&handled);
  for (const int signal : kStopSignals) sigaddset(&handled, signal);
  for (const int signal : {SIGHUP, SIGALRM}) sigaddset(&handled, signal);
  pthread_sigmask(SIG_BLOCK, &handled, &before);
  at::parallel_for(0, count, 1, [](int64_t, int64_t) {});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void UseThreads(int count) {
  RequireThreads(2 * (count - 1));  // for OpenMP and for the pool that set_num_threads makes
  at::set_num_threads(count);
  StartThreads(count);
}

const char* ToldThreads(const launch::Launch& launch) {
  const char* told = std::getenv("OMP_NUM_THREADS");
  const bool is_launchers = launch.launcher.sets_threads && launch.local_world_size > 1;
  return is_launchers && told != nullptr && std::string_view(told) == "1" ? nullptr : told;
}

void UseShareOfCores(const launch::Launch& launch) {
  if (ToldThreads(launch) == nullptr) return UseThreads(static_cast<int>(ShareOfCores(launch)));
  RequireThreads(at::get_num_threads() - 1);
  StartThreads(at::get_num_threads());
}

void ChooseAlgorithms(bool deterministic, bool tolerates_others) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(deterministic);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/tolerates_others);
  context.setDeterministicFillUninitializedMemory(false);  // a debugging aid that costs a pass over every tensor
  const char* given = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  const bool is_deterministic = given != nullptr && std::string_view(given) == ":16:8";  // cuBLAS takes no other
  if (deterministic && !is_deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/1);
}

}  // namespace dtrain::device
