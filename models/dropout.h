// Dropout whose random numbers cost no more than the products with them. ATen's take longer on a CPU than everything
// else between a transformer's products together, and it keeps a factor for each element for the backward pass; here
// the seed is kept.
#pragma once

#include <ATen/core/Tensor.h>

namespace dtrain::models {

// Returns x with each element set to zero with this probability, the others scaled up so that the mean stays the same;
// x itself if this is not training. On a CPU in float32, the numbers depend on one number of the default generator and
// on the places of the elements, for any number of threads. Otherwise it is at::dropout.
at::Tensor Dropout(const at::Tensor& x, double probability, bool is_training);

}  // namespace dtrain::models
