// A container sees all cores of its machine, but is throttled if it uses more than its quota: threads beyond the quota
// only wait for each other.
#include "data/machine/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "data/machine/cgroups.h"

namespace dtrain::data {
namespace {

// Returns cores. Both versions give microseconds of CPU time per period; "max" or a negative number means no limit (0).
double Quota(const std::string& quota, double period) {
  std::istringstream text(quota);
  double microseconds = 0;
  if (!(text >> microseconds) || microseconds <= 0 || period <= 0) return 0;
  return microseconds / period;
}

double QuotaOfVersion2(const std::filesystem::path& group) {
  std::ifstream file(group / "cpu.max");
  std::string quota;
  double period = 0;
  return file >> quota >> period ? Quota(quota, period) : 0;
}

double QuotaOfVersion1(const std::filesystem::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  std::string quota;
  double period = 0;
  return quota_file >> quota && period_file >> period ? Quota(quota, period) : 0;
}

}  // namespace

int64_t CgroupCores(const std::string& memberships, const std::filesystem::path& mount) {
  double least = 0;
  for (const Cgroup& group : Cgroups(memberships, mount, "cpu")) {
    const double cores = group.version2 ? QuotaOfVersion2(group.folder) : QuotaOfVersion1(group.folder);
    if (cores > 0 && (least == 0 || cores < least)) least = cores;
  }
  return static_cast<int64_t>(std::ceil(least));
}

int64_t AvailableCores() {
  int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  if (sched_getaffinity(0, sizeof affinity, &affinity) == 0) cores = std::max(1, CPU_COUNT(&affinity));
  std::ifstream file("/proc/self/cgroup");
  const std::string memberships{std::istreambuf_iterator<char>(file), {}};
  const int64_t quota = CgroupCores(memberships, "/sys/fs/cgroup");
  return quota > 0 ? std::min(cores, quota) : cores;
}

}  // namespace dtrain::data
