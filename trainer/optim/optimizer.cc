// The parts that all optimizers share, and the table of optimizers.
#include "trainer/optim/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "trainer/config/choices.h"
#include "trainer/errors.h"

namespace dtrain::optim {

using Maker = std::unique_ptr<Optimizer>(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config);
Maker MakeSgd;
Maker MakeAdam;
Maker MakeStableAdamW;
Maker MakeLars;
Maker MakeLamb;
Maker MakeRmsprop;

namespace {

// By the names of config::Optimizers().
const std::map<std::string, Maker*> kMakers = {
    {"sgd", MakeSgd},
    {"adam", MakeAdam},
    {"adamw", MakeAdam},
    {"fairseq_adam", MakeAdam},
    {"stable_adamw", MakeStableAdamW},
    {"lars", MakeLars},
    {"lamb", MakeLamb},
    {"rmsprop_tf", MakeRmsprop},
    {"rmsprop", MakeRmsprop},
};

}  // namespace

std::vector<at::Tensor> ParameterGroup::WithGradient(const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> chosen;
  chosen.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (parameters[i].grad().defined()) chosen.push_back(tensors[i]);
  }
  return chosen;
}

std::vector<at::Tensor> ParameterGroup::Gradients() const {
  std::vector<at::Tensor> gradients = WithGradient(parameters);
  for (at::Tensor& tensor : gradients) tensor = tensor.grad();
  return gradients;
}

Rate ParameterGroup::OwnRate(const Rate& learning_rate) const {
  if (lr_factor == 1) return learning_rate;
  return std::visit([this](const auto& rate) { return Rate(rate * lr_factor); }, learning_rate);
}

std::vector<ParameterGroup> GroupByDecay(const std::vector<NamedTensor>& parameters, double weight_decay,
                                         bool decay_norm_and_bias, IsNeverDecayed is_never_decayed, bool decay_bias) {
  ParameterGroup decayed{weight_decay, {}, {}}, plain{0, {}, {}, /*adapted=*/false};
  for (const auto& [name, parameter] : parameters) {
    const bool is_matrix = parameter.dim() > 1 && (is_never_decayed == nullptr || !is_never_decayed(name));
    const bool decays = is_matrix || (decay_norm_and_bias && (decay_bias || !name.ends_with("bias")));
    ParameterGroup& group = decays ? decayed : plain;
    group.names.push_back(name);
    group.parameters.push_back(parameter);
  }
  std::vector<ParameterGroup> groups;
  for (ParameterGroup* group : {&decayed, &plain}) {
    if (!group->parameters.empty()) groups.push_back(std::move(*group));
  }
  return groups;
}

std::vector<ParameterGroup> SplitByRate(const std::vector<ParameterGroup>& groups, const RateFactor& factor_of) {
  std::vector<ParameterGroup> parts;
  for (const ParameterGroup& group : groups) {
    std::vector<ParameterGroup> by_factor;  // as the weights come, so that a run may go on with other factors
    for (size_t i = 0; i < group.names.size(); ++i) {
      const double factor = factor_of(group.names[i]);
      auto part = std::ranges::find(by_factor, factor, &ParameterGroup::lr_factor);
      if (part == by_factor.end())
        part = by_factor.insert(part, ParameterGroup{group.weight_decay, {}, {}, group.adapted, factor});
      part->names.push_back(group.names[i]);
      part->parameters.push_back(group.parameters[i]);
    }
    std::ranges::move(by_factor, std::back_inserter(parts));
  }
  return parts;
}

at::Device Optimizer::device() const {
  return groups_.empty() ? at::Device(at::kCPU) : groups_.front().parameters.front().device();
}

std::vector<std::vector<at::Tensor>> Optimizer::Zeros(bool wanted) const {
  std::vector<std::vector<at::Tensor>> tensors(groups_.size());
  for (size_t i = 0; wanted && i < groups_.size(); ++i) {
    for (const at::Tensor& parameter : groups_[i].parameters) tensors[i].push_back(at::zeros_like(parameter));
  }
  return tensors;
}

std::vector<NamedTensor> Optimizer::Named(const std::string& prefix,
                                          const std::vector<std::vector<at::Tensor>>& tensors) const {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t j = 0; j < tensors[i].size(); ++j) named.emplace_back(prefix + groups_[i].names[j], tensors[i][j]);
  }
  return named;
}

double Optimizer::L2Term() const {
  at::NoGradGuard no_grad;
  double sum = 0;
  for (const ParameterGroup& group : groups_) {
    if (group.weight_decay == 0) continue;
    const auto norms = at::stack(at::_foreach_norm(group.parameters)).to(at::kDouble);
    sum += 0.5 * group.weight_decay * norms.square().sum().item<double>();
  }
  return sum;
}

at::Tensor Optimizer::StepCount() const { return at::zeros({}, at::TensorOptions(at::kFloat).device(device())); }

void Optimizer::CountStep(at::Tensor& count, const std::optional<at::Tensor>& found_inf) {
  count.add_(1);
  if (found_inf) count.sub_(*found_inf);
}

MomentOptimizer::MomentOptimizer(std::vector<ParameterGroup> groups)
    : Optimizer(std::move(groups)), average_(Zeros()), average_of_squares_(Zeros()), step_(StepCount()) {}

std::vector<NamedTensor> MomentOptimizer::State() const {
  std::vector<NamedTensor> state = {{"step", step_}};
  for (auto& named : Named("exp_avg.", average_)) state.push_back(std::move(named));
  for (auto& named : Named("exp_avg_sq.", average_of_squares_)) state.push_back(std::move(named));
  return state;
}

void FusedSgd(at::TensorList tensors, at::TensorList gradients, at::TensorList momentum, const SgdOptions& options,
              const Rate& rate, const std::optional<at::Tensor>& found_inf) {
  std::visit(
      [&](const auto& number) {
        at::_fused_sgd_(tensors, gradients, momentum, options.weight_decay, options.momentum, number, /*dampening=*/0,
                        options.nesterov, /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/std::nullopt,
                        found_inf);
      },
      rate);
}

// SGD without momentum is this subtraction, and its fused kernel reads found_inf on the device.
void SubtractUnless(const std::optional<at::Tensor>& found_inf, at::TensorList tensors, at::TensorList differences,
                    const Rate& rate) {
  FusedSgd(tensors, differences, /*momentum=*/{}, {}, rate, found_inf);
}

at::Tensor NormOfEach(const std::vector<at::Tensor>& tensors) { return at::stack(at::_foreach_norm(tensors)); }

at::Tensor TrustOrOne(const at::Tensor& ratios, const at::Tensor& weight_norms, const at::Tensor& step_norms) {
  return at::where(weight_norms.gt(0).logical_and(step_norms.gt(0)), ratios, 1.0);
}

std::unique_ptr<Optimizer> MakeOptimizer(const config::OptimizerConfig& config,
                                         const std::vector<NamedTensor>& parameters, const ParameterFacts& facts) {
  const auto make = kMakers.find(config.name);
  if (make == kMakers.end()) {
    throw UsageError("--optimizer=" + config.name + " is unknown",
                     "one of " + config::NamesOf(config::OptimizerChoices()));
  }
  std::vector<ParameterGroup> groups = GroupByDecay(parameters, config.weight_decay, config.decay_norm_and_bias,
                                                    facts.is_never_decayed, config.decay_bias);
  if (facts.rate_factor) groups = SplitByRate(groups, facts.rate_factor);
  return make->second(std::move(groups), config);
}

int64_t OptimizerStateBytes(const config::OptimizerConfig& config, const std::vector<NamedTensor>& parameters,
                            const ParameterFacts& facts) {
  std::vector<NamedTensor> shapes;
  for (const auto& [name, parameter] : parameters) {
    shapes.emplace_back(name, at::empty(parameter.sizes(), parameter.options().device(at::kMeta)));
  }
  int64_t bytes = 0;
  for (const auto& [name, tensor] : MakeOptimizer(config, shapes, facts)->State()) {
    bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

}  // namespace dtrain::optim
