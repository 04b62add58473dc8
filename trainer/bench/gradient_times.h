// Measures the parts of a step, and when each gradient is ready: the input of a model of overlapped communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace dtrain::loop {

// The parts of a step that are timed, without communication.
struct StepParts {
  std::function<void()> forward, backward, update;
};

// Runs `steps` steps (1 or more) and returns the means
//   {"forward_milliseconds", "backward_milliseconds", "update_milliseconds",
//    "gradients": [[bytes, milliseconds since the backward pass began], …] in the order in which they were ready}
// The host waits for the device after each part and at each gradient, so that its clock can be used. On a GPU the sum
// is therefore longer than an unmeasured step, and only the shares can be trusted. `parameters` are all on one device.
nlohmann::ordered_json MeasureGradientTimes(const StepParts& parts, const std::vector<at::Tensor>& parameters,
                                            int64_t steps);

}  // namespace dtrain::loop
