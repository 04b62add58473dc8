// The rules between the flags on optimizer, schedule and precision: a part of Problems (problems.h).
#pragma once

#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/problem.h"

namespace dtrain::config {

// Adds the problems that it finds. A flag that is out of range by itself is reported by problems.cc alone.
void CheckTraining(const Config& config, std::vector<Problem>& problems);

}  // namespace dtrain::config
