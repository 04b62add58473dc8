// --doctor: looks at machine, network and data before hours are spent, says what it finds, and leaves nothing behind.
#pragma once

#include "data/error.h"
#include "trainer/launch/launch.h"
#include "trainer/modes/run.h"

namespace dtrain::doctor {

// Prints a line for each thing that was looked at (finding.h). The ranks meet each other as a run's ranks do, within
// --init_timeout where it was given, else within a minute, and part. Returns the code of this rank's first failure.
ExitCode Examine(const loop::RunContext& context, const launch::Machine& machine);

}  // namespace dtrain::doctor
