// --stop_after_epochs_without_gain: a function of what every rank knows and every checkpoint holds, so that all ranks
// agree, and a run that goes on decides as if it had not been stopped.
#pragma once

#include <string>

#include "trainer/config/config.h"
#include "trainer/loop/plan.h"
#include "trainer/loop/training_state.h"

namespace dtrain::loop {

// Why the run ends at the step of `progress`, in words; empty: it does not. Evaluations count as the epochs that they
// belong to: with N epochs and an evaluation after each, the N-th in a row that is no better than the best ends the
// run.
std::string WhyStopsEarly(const config::RunConfig& config, const Plan& plan, const Progress& progress);

}  // namespace dtrain::loop
