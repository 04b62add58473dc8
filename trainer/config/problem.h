// One mistake in the configuration, as a value: all mistakes can be collected and shown at once, whereas an exception
// would show only the first.
#pragma once

#include <string>
#include <vector>

namespace dtrain::config {

struct Problem {
  std::string flag;      // without the dashes
  std::string value;     // as the user would write it; empty: the flag was not given
  std::string expected;  // what would be accepted, for example a range
  std::string hint;      // what to do about it; may be empty
};

// Returns a line for each problem: `--flag=value: expected …; hint`.
std::string Describe(const std::vector<Problem>& problems);

}  // namespace dtrain::config
