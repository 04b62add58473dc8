// How much more memory this process can use before somebody has to give way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace dtrain::data {

// Bytes: the least of what the machine and the control groups of this process (a container's limit) have left, counting
// file caches that would give way.
int64_t AvailableMemory();

// The same of given places: `proc` is where meminfo and self/cgroup are (/proc), `mount` where control groups are
// (/sys/fs/cgroup).
int64_t AvailableMemory(const std::filesystem::path& proc, const std::filesystem::path& mount);

}  // namespace dtrain::data
