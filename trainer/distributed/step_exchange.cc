// The running statistics become views of a flat tensor, so that one all-reduce carries all of them.
#include "trainer/distributed/step_exchange.h"

#include <ATen/ATen.h>
#include <utility>

namespace dtrain::distributed {
namespace {

std::vector<at::Tensor> ClonesOf(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> clones;
  for (const at::Tensor& tensor : tensors) clones.push_back(tensor.clone());
  return clones;
}

int64_t ElementsOf(const std::vector<at::Tensor>& tensors) {
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return elements;
}

// Returns the places of `tensors`, which are dense, in a vector. Each gradient has the strides of its parameter there,
// too, as optimizers need them.
std::vector<at::Tensor> PlacesOf(const std::vector<at::Tensor>& tensors, const at::Tensor& vector) {
  std::vector<at::Tensor> places;
  int64_t offset = vector.storage_offset();
  for (const at::Tensor& tensor : tensors) {
    places.push_back(vector.as_strided(tensor.sizes(), tensor.strides(), offset));
    offset += tensor.numel();
  }
  return places;
}

}  // namespace

StepExchange::StepExchange(std::vector<at::Tensor> running_statistics, int64_t num_sums, at::Device device,
                           Communicator& communicator)
    : communicator_(communicator) {
  at::NoGradGuard no_grad;
  const int64_t elements = ElementsOf(running_statistics);
  flat_ = at::zeros({elements + num_sums}, at::TensorOptions(at::kFloat).device(device));
  statistics_ = flat_.slice(0, 0, elements);
  sums_ = flat_.slice(0, elements);
  const std::vector<at::Tensor> places = PlacesOf(running_statistics, flat_);
  for (size_t i = 0; i < places.size(); ++i) {
    places[i].copy_(running_statistics[i]);
    running_statistics[i].set_data(places[i]);
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

ShardStep::ShardStep(int64_t shards, DataParallel& gradients, StepExchange& statistics,
                     std::vector<at::Tensor> counters, at::Device device, Communicator& communicator)
    : shards_(shards),
      gradients_(gradients),
      statistics_(statistics),
      counters_(std::move(counters)),
      counters_before_(ClonesOf(counters_)),
      sum_(shards, ElementsOf(gradients.parameters()) + statistics.flat().numel(),
           at::TensorOptions(at::kFloat).device(device), communicator) {}

void ShardStep::Begin() {
  at::NoGradGuard no_grad;
  gradients_.ZeroGradients();
  statistics_.Rewind();
  if (!counters_.empty()) at::_foreach_copy_(counters_, counters_before_);
}

void ShardStep::End(const at::Tensor& sums) {
  at::NoGradGuard no_grad;
  gradients_.AfterBackward();
  const at::Tensor vector = sum_.Next();
  at::_foreach_copy_(PlacesOf(gradients_.parameters(), vector), gradients_.gradients());
  statistics_.KeepSums(sums);
  const int64_t rest = statistics_.flat().numel();
  vector.narrow(0, vector.numel() - rest, rest).copy_(statistics_.flat());
}

void ShardStep::Run(at::Tensor& sums) {
  at::NoGradGuard no_grad;
  const at::Tensor total = sum_.Sum();
  gradients_.ReplaceGradients(PlacesOf(gradients_.parameters(), total));
  const int64_t rest = statistics_.flat().numel();
  statistics_.Finish(total.narrow(0, total.numel() - rest, rest), shards_, sums);
  if (!counters_.empty()) at::_foreach_copy_(counters_before_, counters_);
}

}  // namespace dtrain::distributed
