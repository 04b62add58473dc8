// A container sees all cores of its machine, but is throttled if it uses more than its quota: threads beyond the quota
// only wait for each other.
#include "data/machine/limits.h"

#include <sched.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

namespace dtrain::data {
namespace {

// "cpu,cpuacct" has the controller cpu.
bool Has(const std::string& controllers, const std::string& wanted) {
  return ("," + controllers + ",").find("," + wanted + ",") != std::string::npos;
}

// Returns cores. Both versions give microseconds of CPU time per period; "max" or a negative number means no limit (0).
double Quota(const Cgroup& group) {
  std::ifstream file(group.folder / (group.version2 ? "cpu.max" : "cpu.cfs_quota_us"));
  std::ifstream period_of_version1(group.folder / "cpu.cfs_period_us");
  double microseconds = 0, period = 0;
  file >> microseconds;
  (group.version2 ? file : period_of_version1) >> period;
  return microseconds > 0 && period > 0 ? microseconds / period : 0;
}

// Returns the number that a file holds; empty if it says "max" or does not exist.
std::optional<int64_t> NumberIn(const std::filesystem::path& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// Returns the number after a word in a file of lines with a word and a number; 0 if the word is missing.
int64_t NumberAfter(const std::filesystem::path& path, const std::string& wanted) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t number = 0;
    if (word == wanted && file >> number) return number;
  }
  return 0;
}

std::optional<int64_t> Left(const Cgroup& group) {
  const auto& folder = group.folder;
  const auto limit = NumberIn(folder / (group.version2 ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = NumberIn(folder / (group.version2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) return std::nullopt;
  const std::filesystem::path stat = folder / "memory.stat";
  return *limit - *used + NumberAfter(stat, "inactive_file") + NumberAfter(stat, "active_file");
}

}  // namespace

std::vector<Cgroup> Cgroups(const std::string& memberships, const std::filesystem::path& mount,
                            const std::string& controller) {
  std::vector<Cgroup> groups;
  std::istringstream lines(memberships);  // HIERARCHY:CONTROLLERS:/PATH
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version2 = controllers.empty();
    if (!version2 && !Has(controllers, controller)) continue;
    const std::filesystem::path root = version2 ? mount : mount / controller;
    // Inside a container this path is the host's, but the container's own group is mounted as the root: so every parent
    // is tried.
    for (std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();;
         path = path.parent_path()) {
      groups.push_back({root / path, version2});
      if (path.empty()) break;
    }
  }
  return groups;
}

int64_t CgroupCores(const std::string& memberships, const std::filesystem::path& mount) {
  double least = 0;
  for (const Cgroup& group : Cgroups(memberships, mount, "cpu")) {
    const double cores = Quota(group);
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

int64_t AvailableMemory(const std::filesystem::path& proc, const std::filesystem::path& mount) {
  int64_t least = 1024 * NumberAfter(proc / "meminfo", "MemAvailable:");
  std::ifstream file(proc / "self" / "cgroup");
  const std::string memberships{std::istreambuf_iterator<char>(file), {}};
  for (const Cgroup& group : Cgroups(memberships, mount, "memory")) {
    least = std::min(least, Left(group).value_or(std::numeric_limits<int64_t>::max()));
  }
  return std::max<int64_t>(0, least);
}

int64_t AvailableMemory() { return AvailableMemory("/proc", "/sys/fs/cgroup"); }

}  // namespace dtrain::data
