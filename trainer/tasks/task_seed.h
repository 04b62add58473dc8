// What a task draws itself (dropout, stochastic depth) comes from torch's generators. The loop seeds them before every
// forward pass, so that ranks draw apart, and a run that was stopped draws what it would have drawn.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace dtrain::loop {

struct TaskSeed {
  int64_t seed = 0;  // the run's
  int64_t step = 0;  // steps done
  int64_t micro_step = 0;
  int64_t shard = 0;  // the part of the global batch: the rank
};

// Seeds the generators of the CPU and of `device`. The host does not wait for the device.
void SeedTask(const TaskSeed& seed, at::Device device);

}  // namespace dtrain::loop
