#include "trainer/optim/make_optimizer.h"

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "trainer/config/choices.h"
#include "trainer/errors.h"
#include "trainer/optim/memory_efficient_adam.h"

namespace dtrain::optim {

namespace {

using Groups = std::vector<ParameterGroup>;
using Flags = config::OptimizerConfig;
using Made = std::unique_ptr<Optimizer>;

template <typename Kind>
Made Make(Groups groups, const Flags& flags) {
  return std::make_unique<Kind>(std::move(groups), flags);
}

Made MakeAdam(Groups groups, const Flags& flags) {
  const AdamOptions options{.beta1 = flags.adam_betas.at(0),
                            .beta2 = flags.adam_betas.at(1),
                            .epsilon = flags.adam_eps,
                            .decoupled_weight_decay = flags.name != "adam",
                            .epsilon_before_correction = flags.name == "fairseq_adam"};
  const bool is_half = !groups.empty() && groups.front().parameters.front().scalar_type() == at::kHalf;
  if (is_half) return std::make_unique<MemoryEfficientAdam>(std::move(groups), options);
  return std::make_unique<Adam>(std::move(groups), options);
}

// By the names of config::Optimizers().
const std::map<std::string, Made (*)(Groups, const Flags&)> kMakers = {
    {"sgd", Make<Sgd>},
    {"adam", MakeAdam},
    {"adamw", MakeAdam},
    {"fairseq_adam", MakeAdam},
    {"stable_adamw", Make<StableAdamW>},
    {"lars", Make<Lars>},
    {"lamb", Make<Lamb>},
    {"rmsprop_tf", Make<Rmsprop>},
    {"rmsprop", Make<Rmsprop>},
};

}  // namespace

std::unique_ptr<Optimizer> MakeOptimizer(const config::OptimizerConfig& config,
                                         const std::vector<NamedTensor>& parameters, const RateFactor& rate_factor,
                                         IsNeverDecayed is_never_decayed) {
  const auto make = kMakers.find(config.name);
  if (make == kMakers.end()) {
    throw UsageError("--optimizer=" + config.name + " is unknown",
                     "one of " + config::NamesOf(config::OptimizerChoices()));
  }
  Groups groups = GroupByDecay(parameters, config.weight_decay, config.decay_norm_and_bias, is_never_decayed);
  if (rate_factor) groups = SplitByRate(groups, rate_factor);
  return make->second(std::move(groups), config);
}

void UseAdamKernel(Optimizer& optimizer, AdamKernel kernel, const models::HalfWeights& half_weights) {
  auto* adam = dynamic_cast<Adam*>(&optimizer);
  if (adam != nullptr && kernel != nullptr) adam->UseKernel(kernel, half_weights);
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
