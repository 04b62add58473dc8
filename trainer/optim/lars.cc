// The gradients are not changed in place, because they are views of the buckets that are reduced between ranks.
#include <ATen/ATen.h>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {
namespace {

constexpr double kEpsilon = 1e-8;

}  // namespace

Lars::Lars(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config)
    : Optimizer(std::move(groups)), config_(config), momentum_(Zeros(config.momentum != 0)) {}

std::vector<at::Tensor> Lars::Adapted(const ParameterGroup& group, const Rate& rate) const {
  const std::vector<at::Tensor> parameters = group.WithGradient(group.parameters);
  std::vector<at::Tensor> gradients = group.Gradients();
  if (!group.adapted) {
    return group.weight_decay == 0 ? gradients : at::_foreach_add(gradients, parameters, group.weight_decay);
  }
  const at::Tensor weights = NormOfEach(parameters), steps = NormOfEach(gradients);
  gradients = at::_foreach_add(gradients, parameters, group.weight_decay);
  at::Tensor ratios =
      TrustOrOne(config_.lars_trust * weights / (steps + weights * group.weight_decay + kEpsilon), weights, steps);
  if (config_.lars_clip) {
    ratios = std::visit([&](const auto& number) { return (ratios / number).clamp_max(1); }, rate);
  }
  at::_foreach_mul_(gradients, ratios.unbind());
  return gradients;
}

void Lars::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    if (group.Gradients().empty()) continue;
    std::visit(
        [&](const auto& rate) {
          at::_fused_sgd_(group.WithGradient(group.parameters), Adapted(group, rate), group.WithGradient(momentum_[i]),
                          /*weight_decay=*/0, config_.momentum, rate, /*dampening=*/0, config_.nesterov,
                          /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/std::nullopt, found_inf);
        },
        group.OwnRate(learning_rate));
  }
}

std::vector<NamedTensor> Lars::State() const { return Named("", momentum_); }

}  // namespace dtrain::optim
