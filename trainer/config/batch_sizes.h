// The three batch sizes and how two of them give the third: global = batch_size × world size × grad_accum_steps. Apart
// from the other rules because the trainer needs the result and not only the verdict.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/config/config.h"
#include "trainer/config/problem.h"

namespace dtrain::config {

struct BatchSizes {
  int64_t batch_size = 32;  // per device and micro-step
  int64_t grad_accum_steps = 1;
  int64_t global_batch_size = 32;
};

// Why the sizes given do not fit each other or this number of ranks; nothing when they do.
std::optional<Problem> BatchMistake(const BatchConfig& batch, int world_size);

// Sizes not given: with --global_batch_size the missing one is derived (both missing: no accumulation); without it,
// batch_size is 32 and grad_accum_steps 1. Throws UsageError where BatchMistake finds something.
BatchSizes ResolveBatch(const BatchConfig& batch, int world_size);

}  // namespace dtrain::config
