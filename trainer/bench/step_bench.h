// dtrain_bench step: the real model, loss, exchange and optimizer on one batch that stays on the device. No data.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "trainer/modes/run.h"

namespace dtrain::loop {

struct StepBenchOptions {
  int64_t warmup = 3;   // steps before the clock starts
  int64_t steps = 10;   // steps timed, at least
  double seconds = 0;   // timed, at least; 0: `steps` decides
  int64_t threads = 0;  // of an operator; 0: this rank's share of the cores
};

// A collective when there are several ranks. Returns images_per_second (of all ranks) and step_milliseconds (mean),
// achieved_tflops (a rank's: forward cost × 3), loss of the last step, what was measured, the machine, and the parts of
// a step (step_timeline.h). With several ranks also what communication costs:
//   compute_milliseconds         a step without any
//   reduced_after_milliseconds   a step whose gradients are reduced when the backward pass is over
//   hidden_fraction              how much of that communication the backward pass hides in step_milliseconds
//   bucket_bytes                 what is reduced together, in order
nlohmann::ordered_json BenchStep(const RunContext& context, const StepBenchOptions& options);

}  // namespace dtrain::loop
