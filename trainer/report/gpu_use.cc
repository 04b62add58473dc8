// Declares the few things of nvml.h that are needed, because the header comes only with the CUDA toolkit. NVML's
// interface is stable: a function that changes gets a suffix like _v2.
#include "trainer/report/gpu_use.h"

#include <dlfcn.h>

#include <mutex>
#include <utility>

namespace dtrain::report {
namespace {

constexpr int kSuccess = 0;
using Device = void*;

struct Utilization {  // percent
  unsigned int gpu;
  unsigned int memory;
};

struct Memory {  // bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

constexpr double kPercent = 100;

}  // namespace

struct GpuUseReader::Nvml {
  explicit Nvml(std::string name) : name_(std::move(name)) {}
  // The library is not closed, because a driver's library has threads of its own.
  ~Nvml() {
    if (ready_) shutdown_();
  }

  std::optional<int> Count() {
    const std::lock_guard lock(mutex_);
    if (!opened_) {
      opened_ = true;
      ready_ = Open() && init_() == kSuccess;
    }
    unsigned int count = 0;
    if (!ready_ || count_(&count) != kSuccess) return std::nullopt;
    return static_cast<int>(count);
  }

  std::vector<GpuUse> Read() {
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

 private:
  bool Open() {
    void* library = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
    return library != nullptr && Find(library, "nvmlInit_v2", init_) && Find(library, "nvmlShutdown", shutdown_) &&
           Find(library, "nvmlDeviceGetCount_v2", count_) && Find(library, "nvmlDeviceGetHandleByIndex_v2", handle_) &&
           Find(library, "nvmlDeviceGetUtilizationRates", utilization_) &&
           Find(library, "nvmlDeviceGetMemoryInfo", memory_);
  }

  template <typename Function>
  static bool Find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }

  std::mutex mutex_;
  const std::string name_;
  bool opened_ = false, ready_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned int*) = nullptr;
  int (*handle_)(unsigned int, Device*) = nullptr;
  int (*utilization_)(Device, Utilization*) = nullptr;
  int (*memory_)(Device, Memory*) = nullptr;
};

GpuUseReader::GpuUseReader(std::string library) : nvml_(std::make_unique<Nvml>(std::move(library))) {}
GpuUseReader::~GpuUseReader() = default;

std::vector<GpuUse> GpuUseReader::Read() { return nvml_->Read(); }
std::optional<int> GpuUseReader::Count() { return nvml_->Count(); }

}  // namespace dtrain::report
