// For losses that compare the samples of all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/distributed/communicator.h"

namespace dtrain::distributed {

// A collective, and in the backward pass another one. Returns the rows of all ranks, which have equally many, in the
// order of the ranks: B×… → (world size · B)×…. Each rank's rows receive the sum of the gradients that all ranks have
// computed for them: with losses that add up over the ranks, the gradients are those of one rank with all the rows. The
// communicator must outlive the backward pass.
at::Tensor GatheredRows(const at::Tensor& rows, Communicator& communicator);

}  // namespace dtrain::distributed
