// How many cores this process may use: what its decode threads are sized by.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace dtrain::data {

// The least of the cores of its CPU affinity and the CPU quotas of its control groups (what a container is given), at
// least 1.
int64_t AvailableCores();

// The quota of the control groups that `memberships` (the text of /proc/self/cgroup) names and of their parents, in
// cores, rounded up; 0: none. `mount` is where they are mounted (/sys/fs/cgroup; version 2, or 1 with its `cpu`
// folder).
int64_t CgroupCores(const std::string& memberships, const std::filesystem::path& mount);

}  // namespace dtrain::data
