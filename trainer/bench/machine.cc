#include "trainer/bench/machine.h"

#include <ATen/Parallel.h>
#include <sys/utsname.h>
#include <torch/version.h>

#include <fstream>
#include <string>

#include "data/machine/limits.h"

namespace dtrain::bench {
namespace {

// On some architectures /proc/cpuinfo has no model name; then the name of the architecture is used.
std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  utsname system{};
  uname(&system);
  return system.machine;
}

}  // namespace

nlohmann::ordered_json DescribeMachine() {
  return {{"threads", at::get_num_threads()},
          {"cpu", CpuName()},
          {"cores", data::AvailableCores()},
          {"torch", TORCH_VERSION}};
}

}  // namespace dtrain::bench
