// The cost of a pass through a model. The layers of an image model count it themselves while a tensor without data
// passes through them (ImageModel::Cost), so no model is described a second time.
#pragma once

#include <cstdint>

namespace dtrain::models {

struct ForwardCost {
  int64_t multiply_adds = 0;        // of convolutions and fully connected layers: 4.09e9 for ResNet-50 at 224 px
  int64_t activation_elements = 0;  // those kept for the backward pass
  // Those of activations and their gradients that a training step reads or writes on a GPU, forward and backward, where
  // it does little else: in passes over elements, not in products, which do that beside their arithmetic.
  double moved_elements = 0;
};

// Called by layers: adds to the cost of the pass that runs on this thread.
void CountForward(const ForwardCost& layer);

}  // namespace dtrain::models
