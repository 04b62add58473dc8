// A value of a flag that chooses one of several things, as lists for people show it.
#pragma once

#include <string>

namespace dtrain {

struct Choice {
  std::string name;
  std::string description = {};  // may be empty
};

}  // namespace dtrain
