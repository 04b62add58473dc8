// dtrain_bench step: the real model, loss and optimizer on one batch that stays on the device. No data, no ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "trainer/config/config.h"

namespace dtrain::loop {

struct StepBenchOptions {
  int64_t warmup = 3;  // steps before the clock starts
  int64_t steps = 10;  // steps timed
};

// images_per_second and step_milliseconds (mean), achieved_tflops (forward cost × 3), loss of the last step, what was
// measured, and the machine.
nlohmann::ordered_json BenchStep(const config::Config& config, const StepBenchOptions& options);

}  // namespace dtrain::loop
