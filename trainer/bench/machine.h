// The machine that a benchmark ran on, without which its figures mean nothing: its names, and how long a training step
// must take on its GPU at least. That floor is the time of the products at the speed of a large product, and then of
// the bytes that everything else must read and write, at the speed of a copy. What products read and write is not
// counted: it overlaps with their arithmetic.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "models/forward_cost.h"

namespace dtrain::bench {

// Returns threads (of an operator), cpu (its name), cores (that this process may use) and torch (LibTorch's version).
nlohmann::ordered_json DescribeMachine();

struct DeviceLimits {
  double bytes_per_second = 0;  // of a copy: read and written
  double flops_per_second = 0;  // of a product
};

struct LimitTrials {
  int64_t product_size = 8192;           // rows and columns of both matrices
  int64_t copied_bytes = 1'073'741'824;  // 1 GiB
  int64_t times = 10;                    // in each of six rounds
};

// Measures them on `device`, products in `type`. Waits for the device. Throws c10::OutOfMemoryError if its memory is
// full.
DeviceLimits MeasureLimits(at::Device device, at::ScalarType type, const LimitTrials& trials = {});

// What a training step of one rank must do.
struct StepWork {
  double flops = 0;  // of products
  double bytes = 0;  // read and written by everything else
};

// What decides the work of a step besides its model's cost.
struct StepScale {
  int64_t samples = 0;                   // of this rank
  int64_t weights = 0;                   // parameters that learn
  int64_t optimizer_bytes = 0;           // its state
  at::ScalarType products = at::kFloat;  // in which it multiplies
};

// The optimizer reads and writes the weights (float32) and its state, and reads the gradients; with a half type it also
// writes copies of the weights in that type, and float32 gradients are made of those in it.
StepWork WorkOfStep(const models::ForwardCost& cost_of_sample, const StepScale& scale);

// Returns floor_milliseconds, floor_products_milliseconds, floor_bytes, floor_bytes_milliseconds, the limits,
// share_of_floor (1 would be a step that takes no longer), and `roof`, a sentence with all of that.
nlohmann::ordered_json DescribeRoof(const StepWork& work, const DeviceLimits& limits, double step_seconds);

}  // namespace dtrain::bench
