// How busy this machine's GPUs are, according to the driver's library (NVML). The library is opened at run time, so
// that the same program runs on machines without a driver.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::report {

struct GpuUse {
  int index = 0;           // that of nvidia-smi, regardless of CUDA_VISIBLE_DEVICES
  double utilization = 0;  // 0 to 1: the share of the driver's last sample period in which a kernel ran
  uint64_t memory_used_bytes = 0;
  uint64_t memory_total_bytes = 0;
};

// Can be used by several threads at once.
class GpuUseReader {
 public:
  explicit GpuUseReader(std::string library = "libnvidia-ml.so.1") : name_(std::move(library)) {}
  // The library is not closed, because a driver's library has threads of its own.
  ~GpuUseReader();
  GpuUseReader(const GpuUseReader&) = delete;
  GpuUseReader& operator=(const GpuUseReader&) = delete;

  // Returns the GPUs that this process may see and that answer. The first call opens the library, which is slow; empty
  // if that fails.
  std::vector<GpuUse> Read();

  // Returns the number of GPUs; empty if there is no driver that answers. Opens the library likewise.
  std::optional<int> Count();

 private:
  struct Memory;
  struct Utilization;
  using Device = void*;

  bool Open();

  std::mutex mutex_;
  const std::string name_;
  bool opened_ = false, ready_ = false;
  // Functions of the library.
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned int*) = nullptr;
  int (*handle_)(unsigned int, Device*) = nullptr;
  int (*utilization_)(Device, Utilization*) = nullptr;
  int (*memory_)(Device, Memory*) = nullptr;
};

}  // namespace dtrain::report
