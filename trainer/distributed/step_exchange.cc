// The running statistics become views of a flat tensor, so that one all-reduce carries all of them.
#include "trainer/distributed/step_exchange.h"

#include <ATen/ATen.h>

namespace dtrain::distributed {

StepExchange::StepExchange(std::vector<at::Tensor> running_statistics, int64_t num_sums, at::Device device,
                           Communicator& communicator)
    : communicator_(communicator) {
  at::NoGradGuard no_grad;
  int64_t elements = 0;
  for (const at::Tensor& statistic : running_statistics) elements += statistic.numel();
  flat_ = at::zeros({elements + num_sums}, at::TensorOptions(at::kFloat).device(device));
  statistics_ = flat_.slice(0, 0, elements);
  sums_ = flat_.slice(0, elements);
  int64_t offset = 0;
  for (at::Tensor& statistic : running_statistics) {
    const at::Tensor view = flat_.slice(0, offset, offset + statistic.numel()).view_as(statistic);
    view.copy_(statistic);
    statistic.set_data(view);
    offset += statistic.numel();
  }
  finite_statistics_ = statistics_.clone();
}

void StepExchange::Run(at::Tensor& sums) {
  at::NoGradGuard no_grad;
  if (!communicator_.is_alone()) {
    KeepSums(sums);
    communicator_.Sum(flat_);
    sums.copy_(sums_);
    statistics_.div_(communicator_.world_size());
  }
}

void StepExchange::Finish(const at::Tensor& total, int64_t parts, at::Tensor& sums) {
  at::NoGradGuard no_grad;
  flat_.copy_(total);
  sums.copy_(sums_);
  statistics_.div_(parts);
}

void StepExchange::Keep(const std::optional<at::Tensor>& skipped) {
  at::NoGradGuard no_grad;
  at::Tensor kept = statistics_.isfinite();
  if (skipped) kept = kept.logical_and(skipped->eq(0));
  statistics_.copy_(at::where(kept, statistics_, finite_statistics_));
  finite_statistics_.copy_(statistics_);
}

}  // namespace dtrain::distributed
