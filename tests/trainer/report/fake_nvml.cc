// A driver with two GPUs and between them a part of a GPU (MIG), which has no utilization. Signatures are as in nvml.h.
#include <stdlib.h>

namespace {

struct Utilization {
  unsigned int gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};

unsigned int devices[] = {0, 1, 2};
constexpr int kNotSupported = 3;

}  // namespace

extern "C" {

int nvmlInit_v2() { return getenv("FAKE_NVML_FAILS") != nullptr ? 1 : 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 3;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  *device = &devices[index];
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, Utilization* use) {
  const unsigned int index = *static_cast<unsigned int*>(device);
  *use = {index == 0 ? 25U : 100U, 1};
  return index == 1 ? kNotSupported : 0;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const unsigned long long used = (*static_cast<unsigned int*>(device) + 1ULL) << 30;
  *memory = {80ULL << 30, (80ULL << 30) - used, used};
  return 0;
}

}  // extern "C"
