// Gradients averaged over ranks while the backward pass still runs: what torch's DistributedDataParallel does, on the
// same c10d::Reducer.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/distributed/communicator.h"

namespace dtrain::distributed {

class ObservedReducer;

// Which parameters (by index) are reduced together, in the order of reduction.
using BucketLayout = std::vector<std::vector<size_t>>;

struct DataParallelOptions {
  double bucket_cap_mb = 25;
  std::string compression = "none";  // none, fp16 or bf16: what gradients are averaged in
  // All steps are alike: a parameter that no rank's first step uses is left as it is, and a gradient may come in
  // several pieces. The first step (of every run) is reduced after its backward pass, not during it; the others as
  // ever, in the same time. Off: a parameter without a gradient is an error.
  bool static_graph = false;
};

// Per step: ZeroGradients, then for each micro-step the forward pass, BeforeBackward, the backward pass; then
// AfterBackward. A run of one rank has no reducer.
class DataParallel {
 public:
  // `parameters` have equal shapes and order on all ranks. `restored` is the layout that an earlier run settled on
  // (empty: none): another layout would add in another order, which at three ranks or more gives other bits.
  DataParallel(std::vector<std::pair<std::string, at::Tensor>> parameters, Communicator& communicator,
               const DataParallelOptions& options, const BucketLayout& restored);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  void ZeroGradients();
  // The gradients of the coming backward pass are added to what is there; if `reduce`, then averaged over ranks.
  void BeforeBackward(bool reduce);
  // After the step's last backward pass; a collective the first time, when the reducer re-lays its buckets. Throws
  // UsageError naming the parameters that should have got a gradient: the others' last bucket waits for them, on every
  // rank.
  void AfterBackward();

  // Averages over ranks, in the same buckets, what a backward pass without `reduce` has left: how long a step takes
  // whose communication is not hidden. After the first step's AfterBackward, when gradients lie in the buckets.
  void ReduceNow();

  // Of all parameters but those that a static graph does without.
  std::vector<at::Tensor> gradients() const;
  BucketLayout bucket_layout() const;

 private:
  void DefineGradients();
  void FinishFirstStaticStep();
  std::vector<size_t> MissingGradients() const;
  void RequireGradients() const;

  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  int rank_;
  DataParallelOptions options_;
  bool knows_graph_ = false;    // static, and seen
  std::vector<size_t> unused_;  // in it, by this rank
  std::unique_ptr<ObservedReducer> reducer_;
};

}  // namespace dtrain::distributed
