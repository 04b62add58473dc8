// A step of --deterministic=elastic: what one shard of the global batch leaves behind, and its sum over all shards.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trainer/distributed/communicator.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/distributed/shard_sum.h"
#include "trainer/distributed/step_exchange.h"

namespace dtrain::distributed {

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
