#include "trainer/weights/module_state.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>

#include "data/joined.h"
#include "data/machine/limits.h"
#include "models/registry.h"
#include "trainer/errors.h"

namespace dtrain::weights {
namespace {

constexpr char kBackbone[] = "backbone";

bool LiesIn(const std::string& name, const std::string& module) {
  return name == module || name.starts_with(module + ".");
}

void FreezeModule(const std::string& name, const config::ModelConfig& config, const std::string& head,
                  torch::nn::Module& module) {
  const models::Head& of_model = models::HeadIn(config.name, module);
  bool found = false;
  for (auto& parameter : module.named_parameters()) {
    const bool is_meant = name == kBackbone ? !of_model.Has(parameter.key()) : LiesIn(parameter.key(), name);
    if (!is_meant) continue;
    found = true;
    parameter.value().set_requires_grad(false);
  }
  if (found) return;
  throw UsageError("--freeze=" + config.freeze + ": --model=" + config.name + " has no module '" + name + "'",
                   "choose among " +
                       Joined(module.named_children(), ", ", [](const auto& child) { return child.key(); }) +
                       ", the modules inside them (A.B), and backbone (all but " + head + ")");
}

// Whether the module has buffers (running statistics), and parameters of which none learns.
bool IsFrozenNorm(const torch::nn::Module& module) {
  const auto parameters = module.parameters(/*recurse=*/false);
  return !parameters.empty() && !module.buffers(/*recurse=*/false).empty() &&
         std::ranges::none_of(parameters, &at::Tensor::requires_grad);
}

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

void RequireRoomFor(const torch::nn::Module& model) {
  constexpr double kGiB = 1 << 30;
  double bytes = 0;  // a sum of int64 could overflow
  for (const at::Tensor& weight : model.parameters()) bytes += static_cast<double>(weight.nbytes());
  const auto there = static_cast<double>(data::AvailableMemory());
  if (bytes <= there) return;
  char text[160];
  std::snprintf(text, sizeof(text), "the weights of this model need %.1f GiB of memory, and this machine has %.1f GiB",
                bytes / kGiB, there / kGiB);
  throw Error(ExitCode::kOutOfMemory, text,
              "check --num_classes, --vocab_size and --tokens_per_sample, and the sizes in a --model_config");
}

void Freeze(const config::ModelConfig& config, const std::string& head, torch::nn::Module& module) {
  if (config.freeze.empty()) return;
  std::istringstream names(config.freeze + ",");
  for (std::string name; std::getline(names, name, ',');) FreezeModule(name, config, head, module);
  if (ParametersOf(module).empty()) {
    throw UsageError("--freeze=" + config.freeze + ": no parameter of --model=" + config.name + " is left to train",
                     "leave " + head + " out of the list");
  }
  module.apply([](torch::nn::Module& part) {
    if (IsFrozenNorm(part)) part.eval();
  });
}

std::vector<optim::NamedTensor> ParametersOf(const torch::nn::Module& module) {
  std::vector<optim::NamedTensor> parameters;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) parameters.emplace_back(item.key(), item.value());
  }
  return parameters;
}

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
    if (!is_there || found->second.sizes() != tensor.sizes()) {
      throw StorageError("the checkpoint's tensor " + name + (is_there ? " has another shape" : " is missing"),
                         "it belongs to another model, or an optimizer with other groups of weights: check --model, "
                         "--num_classes, --layer_decay and --backbone_lr_factor, or start anew with --resume=none");
    }
    if (found->second.dtype() != tensor.dtype()) {
      throw UsageError("the checkpoint's tensor " + name + " is " + c10::toString(found->second.scalar_type()) +
                           ", that of this run " + c10::toString(tensor.scalar_type()),
                       "the run began with another --precision or --memory_efficient_fp16: go on with it, or begin "
                       "another run with its weights (--init_weights=RUN_DIR/model.safetensors)");
    }
    at::Tensor target = tensor;
    target.copy_(found->second);
  }
}

}  // namespace dtrain::weights
