// The one small all-reduce of every training step: running statistics and the step's sums together.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trainer/distributed/communicator.h"

namespace dtrain::distributed {

// Averages BatchNorm's running statistics over ranks in every step, so that they are the same on all ranks and do not
// depend on when one saves. What else ranks must know of each other's step travels along. A statistic that a batch made
// infinite or NaN keeps its value of the step before: it would not recover, and the weights have skipped that step.
class StepExchange {
 public:
  // `running_statistics`: float32, on their final device, equal shapes on all ranks. They are moved into one flat
  // tensor, of which they become views: the latency of a collective is paid once, and nothing is copied for it.
  // `device` is theirs and that of the sums.
  StepExchange(std::vector<at::Tensor> running_statistics, int64_t num_sums, at::Device device,
               Communicator& communicator);

  // Adds `sums` (num_sums, float32) over ranks, in place, and averages the running statistics.
  void Run(at::Tensor& sums);

 private:
  Communicator& communicator_;
  at::Tensor flat_;        // (statistics + num_sums)
  at::Tensor statistics_;  // view of it
  at::Tensor finite_statistics_;
  at::Tensor sums_;  // view of it
};

}  // namespace dtrain::distributed
