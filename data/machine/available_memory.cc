#include "data/machine/available_memory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>

#include "data/machine/cgroups.h"

namespace dtrain::data {
namespace {

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
