// The one place where an optimizer's name becomes one.
#include "trainer/loop/make_parameter_update.h"

#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {
namespace {

std::unique_ptr<optim::Optimizer> MakeOptimizer(const config::OptimizerConfig& config,
                                                const torch::nn::Module& module) {
  std::vector<optim::ParameterGroup> groups =
      optim::GroupByDecay(ParametersOf(module), config.weight_decay, config.decay_norm_and_bias);
  if (config.name == "sgd") {
    return std::make_unique<optim::Sgd>(std::move(groups),
                                        optim::SgdOptions{.momentum = config.momentum, .nesterov = config.nesterov});
  }
  if (config.name != "adam" && config.name != "adamw") {
    throw UsageError("--optimizer=" + config.name + " is unknown", "one of sgd, adam, adamw");
  }
  return std::make_unique<optim::Adam>(std::move(groups),
                                       optim::AdamOptions{.beta1 = config.adam_betas.at(0),
                                                          .beta2 = config.adam_betas.at(1),
                                                          .epsilon = config.adam_eps,
                                                          .decoupled_weight_decay = config.name == "adamw"});
}

std::optional<optim::LossScaler> MakeLossScaler(const config::PrecisionConfig& config, at::Device device) {
  if (const auto scale = config::NumberFrom(config.loss_scale)) {
    return optim::LossScaler({.dynamic = false, .initial = *scale}, device);
  }
  if (config.name != "fp16") return std::nullopt;
  return optim::LossScaler({.growth_interval = config.loss_scale_window}, device);
}

}  // namespace

optim::ParameterUpdate MakeParameterUpdate(const config::Config& config, const torch::nn::Module& module,
                                           at::Device device) {
  return optim::ParameterUpdate(MakeOptimizer(config.optimizer, module), MakeLossScaler(config.precision, device),
                                config.optimizer.clip_norm, device);
}

distributed::DataParallelOptions DataParallelOptionsOf(const config::RanksConfig& ranks) {
  return {
      .bucket_cap_mb = ranks.bucket_cap_mb, .compression = ranks.grad_compression, .static_graph = ranks.static_graph};
}

}  // namespace dtrain::loop
