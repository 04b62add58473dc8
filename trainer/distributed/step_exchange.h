// The small all-reduce of every training step, which carries BatchNorm's running statistics and the step's sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/distributed/communicator.h"

namespace dtrain::distributed {

// Averages BatchNorm's running statistics over ranks in every step, so that they are equal on all ranks and do not
// depend on when a checkpoint is saved. The sums that ranks need of each other's step travel with them. In each step
// comes Run, and then Keep.
class StepExchange {
 public:
  // `running_statistics` are float32, on `device`, with equal shapes on all ranks. They become views of one flat
  // tensor, so that one collective without copies is enough. The `num_sums` sums are on `device`, too.
  StepExchange(std::vector<at::Tensor> running_statistics, int64_t num_sums, at::Device device,
               Communicator& communicator);

  // Averages the running statistics over ranks, and adds `sums` (float32, shape (num_sums)) over ranks, in place.
  void Run(at::Tensor& sums);

  // A statistic that a batch has made infinite or NaN gets its value of the step before, because it would never
  // recover, and because the weights have skipped that step, too. If `skipped` (float32 scalar on the device) is 1, all
  // statistics do.
  void Keep(const std::optional<at::Tensor>& skipped = std::nullopt);

  // Run in parts, for what is not added over ranks alone (ShardStep). Rewind puts the running statistics back to what
  // they were after the last step. KeepSums stores `sums` behind them in `flat`. Finish takes over the sum of `parts`
  // such tensors.
  void Rewind() { statistics_.copy_(finite_statistics_); }
  void KeepSums(const at::Tensor& sums) { sums_.copy_(sums); }
  const at::Tensor& flat() const { return flat_; }
  void Finish(const at::Tensor& total, int64_t parts, at::Tensor& sums);

 private:
  Communicator& communicator_;
  at::Tensor flat_;               // float32, all statistics and then the sums
  at::Tensor statistics_;         // a view of flat_
  at::Tensor finite_statistics_;  // the statistics after the last step, all finite
  at::Tensor sums_;               // a view of flat_
};

}  // namespace dtrain::distributed
