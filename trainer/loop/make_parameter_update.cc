#include "trainer/loop/make_parameter_update.h"

#include "trainer/config/flags.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {
namespace {

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
  return optim::ParameterUpdate(optim::MakeOptimizer(config.optimizer, ParametersOf(module)),
                                MakeLossScaler(config.precision, device), config.optimizer.clip_norm, device);
}

distributed::DataParallelOptions DataParallelOptionsOf(const config::RanksConfig& ranks) {
  return {
      .bucket_cap_mb = ranks.bucket_cap_mb, .compression = ranks.grad_compression, .static_graph = ranks.static_graph};
}

}  // namespace dtrain::loop
