// The way to make a model. Flags and files name its sizes, and any of them can be a thousand times too large.
#pragma once

#include <torch/nn/module.h>

#include "models/layers.h"

namespace dtrain::weights {

// Throws Error (kOutOfMemory) if this machine has less memory than the weights of a model need.
void RequireRoomFor(const torch::nn::Module& model);

// Returns what `make` returns, a pointer to a model. Looks at its shapes first, and throws as RequireRoomFor does
// before anything is allocated.
template <typename Make>
auto MadeIfItFits(const Make& make) {
  const bool wants_shapes_alone = models::DeviceOfNewWeights().is_meta();
  {
    const models::ShapesAlone shapes;
    auto model = make();
    RequireRoomFor(*model);
    if (wants_shapes_alone) return model;
  }
  return make();
}

}  // namespace dtrain::weights
