// Finds the control groups that limit this process, for example to a container's share of its machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::data {

struct Cgroup {
  std::filesystem::path folder;
  bool version2 = true;
};

// Returns the groups of `controller` ("cpu", "memory") that `memberships` (the content of /proc/self/cgroup) names, and
// their parents. `mount` is where they are mounted (/sys/fs/cgroup; version 2, or version 1 with a folder for each
// controller).
std::vector<Cgroup> Cgroups(const std::string& memberships, const std::filesystem::path& mount,
                            const std::string& controller);

}  // namespace dtrain::data
