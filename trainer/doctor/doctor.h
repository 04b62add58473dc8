// --doctor: examines machine, network and data before people spend hours on a run. It leaves nothing behind.
#pragma once

#include "data/error.h"
#include "trainer/launch/launch.h"
#include "trainer/modes/run.h"

namespace dtrain::doctor {

// Prints a line for each check (finding.h). The ranks connect to each other as those of a run do, within --init_timeout
// (if not given: one minute), and disconnect again. Returns the exit code of this rank's first failure, or kDone.
ExitCode Examine(const modes::RunContext& context, const launch::Machine& machine);

}  // namespace dtrain::doctor
