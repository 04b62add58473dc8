#include "trainer/loop/make_parameter_update.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "trainer/config/flags.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {
namespace {

std::optional<optim::LossScaler> MakeLossScaler(const config::Config& config, at::Device device) {
  const config::PrecisionConfig& precision = config.precision;
  if (const auto scale = config::NumberFrom(precision.loss_scale)) {
    return optim::LossScaler({.dynamic = false, .initial = *scale}, device);
  }
  if (precision.name != "fp16") return std::nullopt;
  const int64_t window = precision.loss_scale_window.value_or(KindOf(config).LossScaleWindow(config));
  return optim::LossScaler({.growth_interval = window}, device);
}

// Returns the place of a text model's parameter from the bottom: 0 for the embeddings, n + 1 for layer n, and the most
// for the head, which comes after `layers` layers.
int64_t PlaceOf(const std::string& name, int64_t layers) {
  constexpr std::string_view kLayer = ".layer.";
  if (const size_t found = name.find(kLayer); found != std::string::npos) {
    return 1 + std::stoll(name.substr(found + kLayer.size()));
  }
  return name.find(".embeddings.") != std::string::npos ? 0 : layers + 1;
}

// --layer_decay and --backbone_lr_factor; empty if all parameters learn at the same rate.
optim::RateFactor RateFactorOf(const config::OptimizerConfig& config, const std::string& head,
                               const std::vector<optim::NamedTensor>& parameters) {
  if (config.layer_decay == 1 && config.backbone_lr_factor == 1) return nullptr;
  int64_t layers = 0;
  for (const auto& [name, parameter] : parameters) layers = std::max(layers, PlaceOf(name, 0));
  return [=, decay = config.layer_decay, backbone = config.backbone_lr_factor](const std::string& name) {
    const double below_head = static_cast<double>(layers + 1 - PlaceOf(name, layers));
    return std::pow(decay, below_head) * (name.starts_with(head + ".") ? 1 : backbone);
  };
}

}  // namespace

optim::ParameterUpdate MakeParameterUpdate(const config::Config& config, const torch::nn::Module& module,
                                           at::Device device) {
  const std::vector<optim::NamedTensor> parameters = ParametersOf(module);
  const auto rate_factor = RateFactorOf(config.optimizer, KindOf(config).HeadName(config.model.name), parameters);
  return optim::ParameterUpdate(optim::MakeOptimizer(config.optimizer, parameters, rate_factor),
                                MakeLossScaler(config, device), config.optimizer.clip_norm, device);
}

std::optional<optim::WeightAverage> MakeWeightAverage(const config::OptimizerConfig& config, int64_t warmup_steps,
                                                      const torch::nn::Module& module,
                                                      const checkpoint::Snapshot* restored) {
  if (config.ema_decay <= 0) return std::nullopt;
  optim::WeightAverage average(
      StateOf(module),
      optim::WeightAverageOptions{
          .decay = config.ema_decay, .every = config.ema_every, .ramp = config.ema_ramp, .warmup = warmup_steps});
  if (restored == nullptr) return average;
  if (restored->average.empty()) {
    report::LogWarning("the checkpoint has no average of the weights: the average starts from the current weights");
  } else {
    CopyInto(average.tensors(), restored->average);
  }
  return average;
}

distributed::DataParallelOptions DataParallelOptionsOf(const config::RanksConfig& ranks) {
  return {.bucket_cap_mb = ranks.bucket_cap_mb,
          .compression = ranks.grad_compression,
          .reduces = ranks.deterministic != "elastic"};
}

}  // namespace dtrain::loop
