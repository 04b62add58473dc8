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

// Per step: ZeroGradients, then for each micro-step BeforeForward, the forward pass, BeforeBackward, the backward pass;
// then AfterBackward. A run of one rank has no reducer.
//
// The reducer's static graph is left alone. It is for parameters that some steps do without, which are refused here,
// and for those that get their gradient in several pieces, which none does. A step with it took as long as without (400
// parameters, two ranks), and the first step's buckets would be reduced after the backward pass, not during it.
class DataParallel {
 public:
  // `parameters` have equal shapes and order on all ranks. `restored` is the layout that an earlier run settled on
  // (empty: none): another layout would add in another order, which at three ranks or more gives other bits.
  // `compression`: none, fp16 or bf16, what gradients are averaged in.
  DataParallel(std::vector<std::pair<std::string, at::Tensor>> parameters, Communicator& communicator,
               double bucket_cap_mb, const BucketLayout& restored, const std::string& compression = "none");
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  void ZeroGradients();
  void BeforeForward();
  // The gradients of the coming backward pass are added to what is there; if `reduce`, then averaged over ranks.
  void BeforeBackward(bool reduce);
  // After the step's last backward pass; a collective the first time, when the reducer re-lays its buckets. Throws
  // UsageError naming the parameters that got no gradient: the others' last bucket waits for them, on every rank.
  void AfterBackward();

  // Averages over ranks, in the same buckets, what a backward pass without `reduce` has left: how long a step takes
  // whose communication is not hidden. After the first step's AfterBackward, when gradients lie in the buckets.
  void ReduceNow();

  std::vector<at::Tensor> gradients() const;
  BucketLayout bucket_layout() const;

 private:
  void RequireAllGradients() const;

  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  int rank_;
  int world_size_;
  bool is_compressed_ = false;
  std::unique_ptr<ObservedReducer> reducer_;
};

}  // namespace dtrain::distributed
