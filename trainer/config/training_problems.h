// The rules between the flags on optimizer, schedule and precision: a part of Problems (problems.h).
#pragma once

#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/problem.h"

namespace dtrain::config {

// Adds what is wrong; silent where single flags are out of range already.
void CheckTraining(const Config& config, std::vector<Problem>& problems);

}  // namespace dtrain::config
