// Counts the cost of a forward pass. The layers count it themselves while a tensor without data passes through them, so
// no model is described a second time.
#pragma once

#include <cstdint>
#include <functional>

namespace dtrain::models {

struct ForwardCost {
  int64_t multiply_adds = 0;        // of convolutions and fully connected layers: 4.09e9 for ResNet-50 at 224 px
  int64_t activation_elements = 0;  // those kept for the backward pass
};

// Returns what the layers count on this thread while `pass` runs. Calls may not be nested.
ForwardCost CostOf(const std::function<void()>& pass);

// Called by layers: adds to the cost of the pass that runs on this thread.
void CountForward(const ForwardCost& layer);

}  // namespace dtrain::models
