// What a step's time goes into, and when each gradient is there: what a model of overlapped communication starts from.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace dtrain::loop {

// A step, cut where its parts are timed; without communication.
struct StepParts {
  std::function<void()> forward, backward, update;
};

// Runs `steps` steps (1 or more) and returns the means
//   {"forward_milliseconds", "backward_milliseconds", "update_milliseconds",
//    "gradients": [[bytes, milliseconds since the backward pass began], …] in the order of their arrival}
// The host waits for the device after each part and at each gradient, so that a clock of the host's can be used: on a
// GPU the sum is longer than a step that is not watched, and only shares are to be trusted.
nlohmann::ordered_json MeasureTimeline(const StepParts& parts, const std::vector<at::Tensor>& parameters,
                                       int64_t steps);

}  // namespace dtrain::loop
