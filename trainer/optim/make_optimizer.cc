#include "trainer/optim/make_optimizer.h"

#include <ATen/ATen.h>

#include "trainer/errors.h"
#include "trainer/optim/lamb.h"
#include "trainer/optim/lars.h"
#include "trainer/optim/memory_efficient_adam.h"
#include "trainer/optim/rmsprop_tf.h"

namespace dtrain::optim {

std::unique_ptr<Optimizer> MakeOptimizer(const config::OptimizerConfig& config,
                                         const std::vector<NamedTensor>& parameters, const RateFactor& rate_factor) {
  std::vector<ParameterGroup> groups = GroupByDecay(parameters, config.weight_decay, config.decay_norm_and_bias);
  if (rate_factor) groups = SplitByRate(groups, rate_factor);
  const std::string& name = config.name;
  if (name == "sgd") {
    return std::make_unique<Sgd>(std::move(groups),
                                 SgdOptions{.momentum = config.momentum, .nesterov = config.nesterov});
  }
  if (name == "adam" || name == "adamw" || name == "fairseq_adam") {
    const AdamOptions options{.beta1 = config.adam_betas.at(0),
                              .beta2 = config.adam_betas.at(1),
                              .epsilon = config.adam_eps,
                              .decoupled_weight_decay = name != "adam",
                              .epsilon_before_correction = name == "fairseq_adam"};
    const bool is_half = !parameters.empty() && parameters.front().second.scalar_type() == at::kHalf;
    if (is_half) return std::make_unique<MemoryEfficientAdam>(std::move(groups), options);
    return std::make_unique<Adam>(std::move(groups), options);
  }
  if (name == "lars") {
    return std::make_unique<Lars>(std::move(groups), LarsOptions{.momentum = config.momentum,
                                                                 .nesterov = config.nesterov,
                                                                 .trust_coefficient = config.lars_trust,
                                                                 .clip = config.lars_clip});
  }
  if (name == "lamb") {
    return std::make_unique<Lamb>(
        std::move(groups),
        LambOptions{.beta1 = config.adam_betas.at(0), .beta2 = config.adam_betas.at(1), .epsilon = config.adam_eps});
  }
  if (name == "rmsprop_tf") {
    return std::make_unique<RmspropTf>(
        std::move(groups),
        RmspropTfOptions{.alpha = config.rmsprop_alpha, .epsilon = config.rmsprop_eps, .momentum = config.momentum});
  }
  throw UsageError("--optimizer=" + name + " is unknown",
                   "one of sgd, adam, adamw, fairseq_adam, lars, lamb, rmsprop_tf");
}

int64_t OptimizerStateBytes(const config::OptimizerConfig& config, const std::vector<NamedTensor>& parameters) {
  std::vector<NamedTensor> shapes;
  for (const auto& [name, parameter] : parameters) {
    shapes.emplace_back(name, at::empty(parameter.sizes(), parameter.options().device(at::kMeta)));
  }
  int64_t bytes = 0;
  for (const auto& [name, tensor] : MakeOptimizer(config, shapes)->State()) {
    bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

}  // namespace dtrain::optim
