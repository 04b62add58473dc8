#include "data/nvjpeg/library.h"

#include <dlfcn.h>

namespace dtrain::data::nvjpeg {

std::vector<std::string> LibraryPlaces(const std::string& torch_libraries, int cuda_major) {
  const std::string number = std::to_string(cuda_major), name = "libnvjpeg.so." + number;
  const std::string packages = torch_libraries + "/../../nvidia/";
  return {name, packages + "cu" + number + "/lib/" + name, packages + "nvjpeg/lib/" + name};
}

Library LoadLibrary(const std::vector<std::string>& places) {
  void* handle = nullptr;
  std::string why;
  for (const std::string& place : places) {
    handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    why += (why.empty() ? "" : "; ") + std::string(dlerror());
  }
  if (handle == nullptr) throw Unavailable("nvJPEG's library cannot be loaded: " + why, kInstall);
  Library library;
  const auto find = [handle](const char* name) {
    void* function = dlsym(handle, name);
    if (function == nullptr) throw Unavailable(std::string("nvJPEG's library is too old: it has no ") + name, kInstall);
    return function;
  };
#define DTRAIN_FIND(name) library.name = reinterpret_cast<decltype(library.name)>(find("nvjpeg" #name));
  DTRAIN_NVJPEG_FUNCTIONS(DTRAIN_FIND)
#undef DTRAIN_FIND
  return library;
}

}  // namespace dtrain::data::nvjpeg
