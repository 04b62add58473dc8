// The gradients are not changed in place, because they are views of the buckets that are reduced between ranks.
#include "trainer/optim/lars.h"

#include <ATen/ATen.h>

#include "trainer/optim/tensor_lists.h"

namespace dtrain::optim {

Lars::Lars(std::vector<ParameterGroup> groups, const LarsOptions& options)
    : Optimizer(std::move(groups)), options_(options), momentum_(Zeros(options.momentum != 0)) {}

std::vector<at::Tensor> Lars::Adapted(const ParameterGroup& group, const Rate& rate) const {
  const std::vector<at::Tensor> parameters = group.WithGradient(group.parameters);
  std::vector<at::Tensor> gradients = group.Gradients();
  if (!group.adapted) {
    return group.weight_decay == 0 ? gradients : at::_foreach_add(gradients, parameters, group.weight_decay);
  }
  const at::Tensor weights = NormOfEach(parameters), steps = NormOfEach(gradients);
  gradients = at::_foreach_add(gradients, parameters, group.weight_decay);
  at::Tensor ratios = TrustOrOne(
      options_.trust_coefficient * weights / (steps + weights * group.weight_decay + options_.epsilon), weights, steps);
  if (options_.clip) {
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
                          /*weight_decay=*/0, options_.momentum, rate, /*dampening=*/0, options_.nesterov,
                          /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/std::nullopt, found_inf);
        },
        group.OwnRate(learning_rate));
  }
}

std::vector<NamedTensor> Lars::State() const { return Named("", momentum_); }

}  // namespace dtrain::optim
