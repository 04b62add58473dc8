// Determines how many cores this process may use, which sets the number of its decode threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace dtrain::data {

// Returns the minimum of the cores in the process's CPU affinity and the CPU quotas of its control groups (a
// container's limit); at least 1.
int64_t AvailableCores();

// Returns the smallest CPU quota of the control groups that `memberships` (the content of /proc/self/cgroup) names and
// of their parents, in cores, rounded up; 0 if there is none. `mount` is where they are mounted (/sys/fs/cgroup;
// version 2, or version 1 with its `cpu` folder).
int64_t CgroupCores(const std::string& memberships, const std::filesystem::path& mount);

}  // namespace dtrain::data
