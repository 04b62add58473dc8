// Declares the few things of nvml.h that are needed, because the header comes only with the CUDA toolkit. NVML's
// interface is stable: a function that changes gets a suffix like _v2.
#include "trainer/report/gpu_use.h"

#include <dlfcn.h>

namespace dtrain::report {
namespace {

constexpr int kSuccess = 0;
constexpr double kPercent = 100;

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

struct GpuUseReader::Utilization {  // percent
  unsigned int gpu;
  unsigned int memory;
};

struct GpuUseReader::Memory {  // bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

GpuUseReader::~GpuUseReader() {
  if (ready_) shutdown_();
}

bool GpuUseReader::Open() {
  void* library = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && Find(library, "nvmlInit_v2", init_) && Find(library, "nvmlShutdown", shutdown_) &&
         Find(library, "nvmlDeviceGetCount_v2", count_) && Find(library, "nvmlDeviceGetHandleByIndex_v2", handle_) &&
         Find(library, "nvmlDeviceGetUtilizationRates", utilization_) &&
         Find(library, "nvmlDeviceGetMemoryInfo", memory_);
}

std::optional<int> GpuUseReader::Count() {
  const std::lock_guard lock(mutex_);
  if (!opened_) {
    opened_ = true;
    ready_ = Open() && init_() == kSuccess;
  }
  unsigned int count = 0;
  if (!ready_ || count_(&count) != kSuccess) return std::nullopt;
  return static_cast<int>(count);
}

std::vector<GpuUse> GpuUseReader::Read() {
  const auto count = static_cast<unsigned int>(Count().value_or(0));
  const std::lock_guard lock(mutex_);
  std::vector<GpuUse> found;
  for (unsigned int index = 0; index < count; ++index) {
    Device device = nullptr;
    Utilization utilization{};
    Memory memory{};
    if (handle_(index, &device) != kSuccess || utilization_(device, &utilization) != kSuccess ||
        memory_(device, &memory) != kSuccess) {
      continue;  // a part of a GPU (MIG) has no utilization, and a lost GPU has none of these
    }
    found.push_back({.index = static_cast<int>(index),
                     .utilization = utilization.gpu / kPercent,
                     .memory_used_bytes = memory.used,
                     .memory_total_bytes = memory.total});
  }
  return found;
}

}  // namespace dtrain::report
