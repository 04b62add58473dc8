// Checks that a training can learn anything at all. Only data, plan and model together tell, so the flags' own checks
// (trainer/config) cannot.
#pragma once

#include "trainer/config/config.h"
#include "trainer/loop/plan.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::modes {

// Throws UsageError if early stopping is asked for without a validation split, if the average of the weights would
// never be updated, or if the task's kind finds that this data with these batches teaches nothing.
void RequireLearnable(const config::Config& config, const loop::Plan& plan, const tasks::DataSets& data);

}  // namespace dtrain::modes
