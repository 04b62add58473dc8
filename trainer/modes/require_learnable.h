// Whether a training could learn anything at all: what only data, plan and model together tell.
#pragma once

#include "trainer/config/config.h"
#include "trainer/loop/plan.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

// Throws UsageError where images of one class are to be mixed, where batch normalisation would see a single value of
// each channel, and where the average of the weights would never be updated.
void RequireLearnable(const config::Config& config, const Plan& plan, const DataSets& data);

}  // namespace dtrain::loop
