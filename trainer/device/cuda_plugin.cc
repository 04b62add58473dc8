// The library is in the folder of the executable, or, for tests, in the neighbouring bin/.
#include "trainer/device/cuda_plugin.h"

#include <dlfcn.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "trainer/errors.h"

namespace dtrain::device {
namespace {

constexpr const char* kLibrary = "libdtrain_cuda.so";

std::filesystem::path LibraryPath() {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const auto beside = folder / kLibrary;
  return std::filesystem::exists(beside, ignored) ? beside : folder / ".." / "bin" / kLibrary;
}

int CountDeviceFiles() {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("nvidia", 0) == 0 && name.size() > 6 && std::isdigit(static_cast<unsigned char>(name[6]))) ++count;
  }
  return count;
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

bool HasCudaPlugin() {
  std::error_code ignored;
  return std::filesystem::exists(LibraryPath(), ignored);
}

GpuSigns SeeGpus() {
  std::error_code ignored;
  const bool lent = std::filesystem::exists("/usr/lib/wsl/lib/libcuda.so.1", ignored);
  return {.in_machine = lent || CountDeviceFiles() > 0, .built_with_cuda = HasCudaPlugin()};
}

int CountGpus() {
  if (!HasCudaPlugin()) return 0;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const int files = CountDeviceFiles();
  return visible != nullptr ? std::min(files, CountVisible(visible)) : files;
}

const CudaPlugin& LoadCudaPlugin() {
  static const CudaPlugin plugin = [] {
    void* library = dlopen(LibraryPath().c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      throw UsageError(std::string("there is a GPU, but CUDA cannot be used: ") + dlerror(),
                       "install the missing library or driver, or run on the CPU with CUDA_VISIBLE_DEVICES=\"\"");
    }
    return *static_cast<const CudaPlugin*>(dlsym(library, "dtrain_cuda_plugin"));
  }();
  return plugin;
}

data::DeviceNormalisation NormalisationOn(at::Device device) {
  return device.is_cuda() ? LoadCudaPlugin().normalise_images : nullptr;
}

const models::NormKernels* NormKernelsOn(at::Device device) {
  return device.is_cuda() ? &LoadCudaPlugin().norm : nullptr;
}

const models::StemKernels* StemKernelsOn(at::Device device) {
  return device.is_cuda() ? &LoadCudaPlugin().stem : nullptr;
}

const models::DepthwiseKernels* DepthwiseKernelsOn(at::Device device) {
  return device.is_cuda() ? &LoadCudaPlugin().depthwise : nullptr;
}

const models::TextKernels* TextKernelsOn(at::Device device) {
  return device.is_cuda() ? &LoadCudaPlugin().text : nullptr;
}

optim::AdamKernel AdamKernelOn(at::Device device) { return device.is_cuda() ? LoadCudaPlugin().adam : nullptr; }

}  // namespace dtrain::device
