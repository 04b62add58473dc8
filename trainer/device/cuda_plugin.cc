// The library is in the folder of the executable, or, for tests, in the neighbouring bin/.
#include "trainer/device/cuda_plugin.h"

#include <dlfcn.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/errors.h"
#include "trainer/report/gpu_use.h"

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

// Whether the library is there. It is not if it was not built.
bool HasCudaPlugin() {
  std::error_code ignored;
  return std::filesystem::exists(LibraryPath(), ignored);
}

}  // namespace

GpuSigns SeeGpus() {
  std::error_code ignored;
  const bool lent = std::filesystem::exists("/usr/lib/wsl/lib/libcuda.so.1", ignored);
  return {.in_machine = lent || CountDeviceFiles() > 0, .built_with_cuda = HasCudaPlugin()};
}

int CountGpus() {
  if (!HasCudaPlugin()) return 0;
  static const std::optional<int> of_driver = report::GpuUseReader().Count();
  return CountUsableGpus(of_driver, CountDeviceFiles(), std::getenv("CUDA_VISIBLE_DEVICES"));
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

models::DeviceKernels KernelsOn(at::Device device) {
  if (!device.is_cuda()) return {};
  const CudaPlugin& plugin = LoadCudaPlugin();
  return {&plugin.norm, &plugin.stem, &plugin.depthwise, &plugin.text};
}

optim::AdamKernel AdamKernelOn(at::Device device) { return device.is_cuda() ? LoadCudaPlugin().adam : nullptr; }

}  // namespace dtrain::device
