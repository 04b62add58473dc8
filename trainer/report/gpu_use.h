// How busy this machine's GPUs are, as their driver's library (NVML) tells. It is opened at run time: the same program
// runs where there is no driver, and then there are no GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtrain::report {

struct GpuUse {
  int index = 0;           // as nvidia-smi counts them: not as CUDA_VISIBLE_DEVICES does
  double utilization = 0;  // 0 to 1: the part of the last moments in which a kernel ran
  uint64_t memory_used_bytes = 0;
  uint64_t memory_total_bytes = 0;
};

// For any threads.
class GpuUseReader {
 public:
  explicit GpuUseReader(std::string library = "libnvidia-ml.so.1");
  ~GpuUseReader();

  // All GPUs that this process may see. The first call opens the library, which takes a moment; empty where that fails.
  std::vector<GpuUse> Read();

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace dtrain::report
