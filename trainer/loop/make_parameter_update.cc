#include "trainer/loop/make_parameter_update.h"

#include <algorithm>

#include "models/registry.h"
#include "trainer/config/flags.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/report/log.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {
namespace {

// For text this is fairseq's default: the number of steps that take 2^14 micro-batches.
int64_t DefaultScaleWindow(const config::Config& config) {
  if (!models::IsRoberta(config.model.name)) return optim::LossScalerOptions().growth_interval;
  constexpr int64_t kMicroBatches = 1 << 14;
  const int64_t batch = config.batch.batch_size.value_or(1);
  return std::max<int64_t>(1, kMicroBatches * batch / config.batch.global_batch_size.value_or(batch));
}

std::optional<optim::LossScaler> MakeLossScaler(const config::Config& config, at::Device device) {
  const config::PrecisionConfig& precision = config.precision;
  if (const auto scale = config::NumberFrom(precision.loss_scale)) {
    return optim::LossScaler({.dynamic = false, .initial = *scale}, device);
  }
  if (precision.name != "fp16") return std::nullopt;
  return optim::LossScaler({.growth_interval = precision.loss_scale_window.value_or(DefaultScaleWindow(config))},
                           device);
}

}  // namespace

optim::ParameterUpdate MakeParameterUpdate(const config::Config& config, const torch::nn::Module& module,
                                           at::Device device) {
  return optim::ParameterUpdate(
      optim::MakeOptimizer(config.optimizer, ParametersOf(module), models::ClassifierName(config.model.name)),
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
  return {
      .bucket_cap_mb = ranks.bucket_cap_mb, .compression = ranks.grad_compression, .static_graph = ranks.static_graph};
}

}  // namespace dtrain::loop
