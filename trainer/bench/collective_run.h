// `dtrain_bench collective`, under every launcher.
#pragma once

#include "trainer/bench/collective_bench.h"
#include "trainer/modes/run.h"

namespace dtrain::loop {

// Meets the other ranks, measures, and prints on rank 0. Throws UsageError for a run of one rank, and an error when an
// element was wrong.
void BenchCollective(const RunContext& context, const distributed::CollectiveBenchOptions& options, bool json);

}  // namespace dtrain::loop
