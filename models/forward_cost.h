// What a forward pass takes, counted by the layers themselves as a tensor without data passes through them: no model is
// described a second time for it.
#pragma once

#include <cstdint>
#include <functional>

namespace dtrain::models {

struct ForwardCost {
  int64_t multiply_adds = 0;        // of convolutions and fully connected layers: 4.09e9 for ResNet-50 at 224 px
  int64_t activation_elements = 0;  // kept for the backward pass
};

// What the layers that `pass` goes through count, on this thread.
ForwardCost CostOf(const std::function<void()>& pass);

// For layers: adds to what is being counted.
void CountForward(const ForwardCost& layer);

}  // namespace dtrain::models
