// Where computing ends in a backward pass, and waiting for the reduction of its gradients begins.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace dtrain::distributed {

// Calls `then` in the coming backward pass of `loss`, when the last gradient is computed (on a GPU: asked for) and
// before the reducer waits for its buckets: on the thread that ends the pass, while its caller waits.
void AfterLastGradient(const at::Tensor& loss, std::function<void()> then);

}  // namespace dtrain::distributed
