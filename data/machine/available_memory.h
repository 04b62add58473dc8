// Determines how much more memory this process can use before it is refused or another process has to release some.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace dtrain::data {

// Returns bytes: the minimum of what the machine and each control group of this process (a container's limit) have
// left, including file caches, which the kernel would drop.
int64_t AvailableMemory();

// The same with other places: `proc` has meminfo and self/cgroup (usually /proc), `mount` has the control groups
// (usually /sys/fs/cgroup).
int64_t AvailableMemory(const std::filesystem::path& proc, const std::filesystem::path& mount);

}  // namespace dtrain::data
