// A task's own random numbers (dropout, stochastic depth) come from torch's generators. The loop seeds these before
// each forward pass, so that ranks draw different numbers, and a resumed run draws the same as an uninterrupted one.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace dtrain::loop {

struct TaskSeed {
  int64_t seed = 0;  // --seed
  int64_t step = 0;  // steps done
  int64_t micro_step = 0;
  int64_t shard = 0;  // the part of the global batch, that is, the rank
};

// Seeds the generators of the CPU and of `device`. The host does not wait for the device.
void SeedTask(const TaskSeed& seed, at::Device device);

}  // namespace dtrain::loop
