// What the ranks exchange in every training step besides gradients: BatchNorm's running statistics and the step's sums.
// With --deterministic=elastic all of it is added by shards of the global batch.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/distributed/communicator.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/distributed/shard_sum.h"

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

// A step of --deterministic=elastic: what one shard of the global batch leaves behind, and its sum over all shards.
// The order of calls in a step: for each of this rank's shards Begin, the forward and backward passes, and End; Run.
class ShardStep {
 public:
  // `gradients` adds nothing over ranks itself (DataParallelOptions::reduces). `counters` are the whole-numbered
  // buffers that a forward pass changes: BatchNorm's counts of batches. All referred to must outlive this.
  ShardStep(int64_t shards, DataParallel& gradients, StepExchange& statistics, std::vector<at::Tensor> counters,
            at::Device device, Communicator& communicator);

  // Puts gradients, running statistics and counters back to what they were at the start of the step.
  void Begin();
  // Keeps the gradients and running statistics of the shard, and its `sums` (see StepExchange). Throws as
  // DataParallel::AfterBackward.
  void End(const at::Tensor& sums);
  // A collective. The gradients become the sums over all shards, the running statistics their mean (one update of them
  // in a step), and `sums` the sum. StepExchange::Keep comes next.
  void Run(at::Tensor& sums);

 private:
  const int64_t shards_;
  DataParallel& gradients_;
  StepExchange& statistics_;
  std::vector<at::Tensor> counters_, counters_before_;
  ShardSum sum_;  // of vectors with all gradients, and then StepExchange::flat
};

}  // namespace dtrain::distributed
