// Each gradient has the strides of its parameter in the vector, too, as optimizers need them.
#include "trainer/distributed/shard_step.h"

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

// Returns the places of `tensors`, which are dense, in a vector.
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
