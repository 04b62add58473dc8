// dtrain_bench step: measures steps of the real model, loss, exchange and optimizer on one random batch that stays on
// the device, so that reading data plays no part.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "trainer/modes/run.h"

namespace dtrain::bench {

struct StepBenchOptions {
  int64_t warmup = 3;   // steps before the clock starts
  int64_t steps = 10;   // minimum number of timed steps
  double seconds = 0;   // minimum time to measure; 0: `steps` alone decides
  int64_t threads = 0;  // of an operator; 0: this rank's share of the cores
};

// A collective; the configuration has been resolved (config/resolve.h). Returns images_per_second or tokens_per_second
// (of all ranks), step_milliseconds (mean), achieved_tflops (of one rank: forward cost × 3), the loss of the last step,
// the settings, the machine, the parts of a step (MeasureGradientTimes), and on a GPU its roof (machine.h). With
// several ranks it also returns the cost of communication:
//   compute_milliseconds         a step without communication
//   reduced_after_milliseconds   a step whose gradients are reduced after the backward pass
//   hidden_fraction              the share of that communication which the backward pass hides in step_milliseconds
//   bucket_bytes                 the sizes of the buckets of gradients that are reduced together, in their order
nlohmann::ordered_json BenchStep(const modes::RunContext& context, const StepBenchOptions& options);

}  // namespace dtrain::bench
