// --stop_after_epochs_without_gain. The decision is a function of values that every rank knows and every checkpoint
// holds, so all ranks decide alike, and a resumed run decides as if it had never been interrupted.
#pragma once

#include <string>

#include "trainer/config/config.h"
#include "trainer/loop/plan.h"
#include "trainer/loop/training_state.h"

namespace dtrain::loop {

// Returns the reason why the run ends at the step of `progress`, for people, or an empty string if it goes on. The gap
// is measured between the epochs that evaluations belong to (Plan::EvaluatedEpoch): with a patience of N epochs and an
// evaluation after each epoch, the N-th evaluation in a row that does not beat the best one ends the run.
std::string WhyStopsEarly(const config::RunConfig& config, const Plan& plan, const Progress& progress);

}  // namespace dtrain::loop
