// Averages gradients over ranks while the backward pass still runs, as torch's DistributedDataParallel does and with
// the same c10d::Reducer.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/distributed/communicator.h"

namespace dtrain::distributed {

class ObservedReducer;

// The buckets in the order of their reduction. Each lists the indices of the parameters that are reduced together.
using BucketLayout = std::vector<std::vector<size_t>>;

struct DataParallelOptions {
  double bucket_cap_mb = 25;         // the size of a bucket, in MiB
  std::string compression = "none";  // none, fp16 or bf16: the type in which gradients are averaged
  bool reduces = true;               // false: gradients stay those of this rank, until ReplaceGradients
  bool accumulates = false;          // steps may have several micro-steps, each recorded for itself (step_graph.h)
};

// The order of calls in a step: ZeroGradients; for each micro-step the forward pass, BeforeBackward and the backward
// pass; AfterBackward. A run of one rank has no reducer, nor has one without `reduces`. Used on the main
// thread.
class DataParallel {
 public:
  // `parameters` have equal shapes and order on all ranks. `restored` is the layout of the run that is resumed, or
  // empty. Resuming with another layout would add numbers in another order, which gives other bits with three ranks or
  // more. Throws StorageError if `restored` does not fit the parameters. `communicator` may be destroyed first.
  DataParallel(std::vector<std::pair<std::string, at::Tensor>> parameters, Communicator& communicator,
               const DataParallelOptions& options, const BucketLayout& restored);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  void ZeroGradients();
  // The next backward pass adds its gradients to those of the parameters. If `reduce`, which is for the last
  // micro-step, the sums are averaged over ranks.
  void BeforeBackward(bool reduce);
  // Called after the last backward pass of a step; the first call is a collective, because the reducer then rearranges
  // its buckets. Throws UsageError naming the parameters that should have received a gradient but did not: without it,
  // every rank would wait for the bucket that lacks them.
  void AfterBackward();

  // Averages the gradients of a backward pass without `reduce` over ranks, in the same buckets. Measures the time of a
  // step that does not hide its communication. To be called after the AfterBackward of the first step, from which on
  // gradients lie in the buckets.
  void ReduceNow();

  // Returns the defined gradients: those of all parameters after a step.
  std::vector<at::Tensor> gradients() const;
  // Without a reducer: gives the parameters these gradients, in their order, converted to their types.
  void ReplaceGradients(const std::vector<at::Tensor>& gradients);
  std::vector<at::Tensor> parameters() const;
  BucketLayout bucket_layout() const;  // empty without a reducer

 private:
  void DefineGradients();
  void AddZero();
  std::vector<size_t> MissingGradients() const;
  void RequireGradients() const;

  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  int rank_;
  bool keeps_gradients_;  // without a reducer: the gradients are the same tensors in all steps
  bool is_first_step_ = true;
  std::unique_ptr<ObservedReducer> reducer_;
};

// Calls `then` once in each later backward pass of `loss`, after the last gradient was computed (on a GPU: its kernels
// were started) and before the reducer waits for its buckets. It is called on the thread of autograd that ends the
// pass, while the thread that called backward() waits.
void AfterLastGradient(const at::Tensor& loss, std::function<void()> then);

}  // namespace dtrain::distributed
