#include "trainer/loop/phases.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace dtrain::loop {
namespace {

// proc(5): starttime is field 22, in clock ticks since boot. The name (field 2) is in brackets and may contain spaces,
// so fields are counted after the last bracket.
double SecondsSinceProcessStart() {
  constexpr int kFieldsAfterName = 20;
  std::ifstream file("/proc/self/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < kFieldsAfterName; ++i) fields >> field;
  timespec now{};
  if (!fields || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double since_boot = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  return std::max(0.0, since_boot - std::stod(field) / static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

}  // namespace

Phases::Phases(control::ControlPlane& control, StepProfiler& profiler, bool host_computes, bool alone)
    : control_(control), profiler_(profiler), times_(host_computes, SecondsSinceProcessStart()), alone_(alone) {}

}  // namespace dtrain::loop
