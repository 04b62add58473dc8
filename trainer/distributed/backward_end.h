// Finds the moment in a backward pass at which its computation ends and waiting for the reduction of gradients begins.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace dtrain::distributed {

// Calls `then` once in each later backward pass of `loss`, after the last gradient was computed (on a GPU: its kernels
// were started) and before the reducer waits for its buckets. It is called on the thread of autograd that ends the
// pass, while the thread that called backward() waits.
void AfterLastGradient(const at::Tensor& loss, std::function<void()> then);

}  // namespace dtrain::distributed
