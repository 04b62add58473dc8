// Momentum buffers start at zero, which gives v = g in the first step, as in torch.optim.SGD, without a special case.
#include <ATen/ATen.h>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

Sgd::Sgd(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config)
    : Optimizer(std::move(groups)), config_(config), momentum_(Zeros(config.momentum != 0)) {}

void Sgd::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    const std::vector<at::Tensor> gradients = group.Gradients();
    if (gradients.empty()) continue;
    std::visit(
        [&](const auto& rate) {
          at::_fused_sgd_(group.WithGradient(group.parameters), gradients, group.WithGradient(momentum_[i]),
                          group.weight_decay, config_.momentum, rate, /*dampening=*/0, config_.nesterov,
                          /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/std::nullopt, found_inf);
        },
        group.OwnRate(learning_rate));
  }
}

std::vector<NamedTensor> Sgd::State() const { return Named("", momentum_); }

}  // namespace dtrain::optim
