// One mistake in the configuration, as a value: all mistakes can be collected and shown at once, whereas an exception
// would show only the first.
#pragma once

#include <string>
#include <vector>

namespace dtrain::config {

struct Problem {
  std::string flag;           // without the dashes
  std::string value = {};     // as the user would write it; empty: the flag was not given
  std::string expected = {};  // what would be accepted, for example a range
  std::string hint = {};      // what to do about it; may be empty
  std::string unused = {};    // what does not use the flag at all; if it is not empty, `expected` is not shown
};

// Returns a line for each problem: `--flag=value: expected …; hint` or `--flag=value: not used by …; hint`.
std::string Describe(const std::vector<Problem>& problems);

}  // namespace dtrain::config
