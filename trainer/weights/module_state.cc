#include "trainer/weights/module_state.h"

#include <map>
#include <string>

#include "trainer/errors.h"

namespace dtrain::weights {

std::vector<optim::NamedTensor> ParametersOf(const torch::nn::Module& module) {
  std::vector<optim::NamedTensor> parameters;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) parameters.emplace_back(item.key(), item.value());
  }
  return parameters;
}

namespace {

std::vector<at::Tensor> BuffersInTraining(const torch::nn::Module& module, bool floating_point) {
  std::vector<at::Tensor> buffers;
  module.apply([&](const torch::nn::Module& part) {
    if (!part.is_training()) return;
    for (const auto& buffer : part.buffers(/*recurse=*/false)) {
      if (buffer.is_floating_point() == floating_point) buffers.push_back(buffer);
    }
  });
  return buffers;
}

}  // namespace

std::vector<at::Tensor> RunningStatistics(const torch::nn::Module& module) { return BuffersInTraining(module, true); }

std::vector<at::Tensor> BatchCounters(const torch::nn::Module& module) { return BuffersInTraining(module, false); }

checkpoint::NamedTensors StateOf(const torch::nn::Module& module) {
  checkpoint::NamedTensors state;
  for (const auto& item : module.named_parameters()) state.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) state.emplace_back(item.key(), item.value());
  return state;
}

void CopyInto(const checkpoint::NamedTensors& destination, const checkpoint::NamedTensors& saved) {
  at::NoGradGuard no_grad;
  const std::map<std::string, at::Tensor> by_name(saved.begin(), saved.end());
  for (const auto& [name, tensor] : destination) {
    const auto found = by_name.find(name);
    const bool is_there = found != by_name.end();
    if (!is_there || found->second.sizes() != tensor.sizes() || found->second.dtype() != tensor.dtype()) {
      throw StorageError(
          "the checkpoint's tensor " + name + (is_there ? " has another shape or type" : " is missing"),
          "it belongs to another model: check --model and --num_classes, or start anew with --resume=none");
    }
    at::Tensor target = tensor;
    target.copy_(found->second);
  }
}

}  // namespace dtrain::weights
