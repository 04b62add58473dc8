// One mistake in the configuration, as a value: so that all of them can be collected and shown at once, where an
// exception would show the first only.
#pragma once

#include <string>
#include <vector>

namespace dtrain::config {

struct Problem {
  std::string flag;      // without the dashes
  std::string value;     // as the user would write it; empty: not given
  std::string expected;  // what would be accepted, with its range
  std::string hint;      // what to do about it; may be empty
};

// One block for the user, a line for each problem: `--flag=value: expected …; hint`.
std::string Describe(const std::vector<Problem>& problems);

}  // namespace dtrain::config
