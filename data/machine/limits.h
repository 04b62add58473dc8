// Determines how many cores and how much memory this process may use: a container has less than its machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::data {

// A control group that limits this process, for example to a container's share of its machine.
struct Cgroup {
  std::filesystem::path folder;
  bool version2 = true;
};

// Returns the groups of `controller` ("cpu", "memory") that `memberships` (the content of /proc/self/cgroup) names, and
// their parents. `mount` is where they are mounted (/sys/fs/cgroup; version 2, or version 1 with a folder for each
// controller).
std::vector<Cgroup> Cgroups(const std::string& memberships, const std::filesystem::path& mount,
                            const std::string& controller);

// Returns the minimum of the cores in the process's CPU affinity and the CPU quotas of its control groups (a
// container's limit); at least 1.
int64_t AvailableCores();

// Returns the smallest CPU quota of the control groups that `memberships` (the content of /proc/self/cgroup) names and
// of their parents, in cores, rounded up; 0 if there is none. `mount` is where they are mounted (/sys/fs/cgroup;
// version 2, or version 1 with its `cpu` folder).
int64_t CgroupCores(const std::string& memberships, const std::filesystem::path& mount);

// Returns the bytes that this process can use before it is refused or another process has to release some: the minimum
// of what the machine and each control group of this process (a container's limit) have left, including file caches,
// which the kernel would drop.
int64_t AvailableMemory();

// The same with other places: `proc` has meminfo and self/cgroup (usually /proc), `mount` has the control groups
// (usually /sys/fs/cgroup).
int64_t AvailableMemory(const std::filesystem::path& proc, const std::filesystem::path& mount);

}  // namespace dtrain::data
