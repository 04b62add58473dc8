#include "data/machine/cgroups.h"

#include <sstream>

namespace dtrain::data {
namespace {

// "cpu,cpuacct" has the controller cpu.
bool Has(const std::string& controllers, const std::string& wanted) {
  return ("," + controllers + ",").find("," + wanted + ",") != std::string::npos;
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

}  // namespace dtrain::data
