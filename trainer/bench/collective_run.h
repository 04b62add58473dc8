// dtrain_bench collective: the bench of collectives as a program, under every launcher.
#pragma once

#include "trainer/bench/collective_bench.h"
#include "trainer/modes/run.h"

namespace dtrain::loop {

// A collective. Connects to the other ranks, measures, and prints on rank 0, with `json` also one JSON object. Throws
// UsageError if the run has one rank and no process group, and Error (kInternal) if an element was wrong.
void BenchCollective(const RunContext& context, const distributed::CollectiveBenchOptions& options, bool json);

}  // namespace dtrain::loop
