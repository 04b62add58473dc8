// A task's own random numbers (dropout, stochastic depth) come from torch's generators. The loop seeds these before
// each forward pass, so that ranks draw different numbers, and a resumed run draws the same as an uninterrupted one.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "data/pipeline/batch.h"

namespace dtrain::tasks {

// Seeds the generators of the CPU and of `device` for a part of a step; `seed` is that of --seed. The host does not
// wait for the device.
void SeedTask(int64_t seed, const data::StepPart& part, at::Device device);

}  // namespace dtrain::tasks
