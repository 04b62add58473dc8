// The momentum already contains the learning rate, so the last operation of a step is a step of SGD with a rate of 1.
#include <ATen/ATen.h>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

RmspropTf::RmspropTf(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config)
    : Optimizer(std::move(groups)), config_(config), square_average_(Zeros()), momentum_(Zeros(config.momentum != 0)) {
  for (const auto& averages : square_average_) at::_foreach_add_(averages, 1);
}

void RmspropTf::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    std::vector<at::Tensor> gradients = group.Gradients();
    if (gradients.empty()) continue;
    const std::vector<at::Tensor> parameters = group.WithGradient(group.parameters);
    const std::vector<at::Tensor> squares = group.WithGradient(square_average_[i]);
    if (group.weight_decay != 0) gradients = at::_foreach_add(gradients, parameters, group.weight_decay);
    SubtractUnless(found_inf, squares, at::_foreach_sub(squares, at::_foreach_mul(gradients, gradients)),
                   1 - config_.rmsprop_alpha);

    std::vector<at::Tensor> roots = at::_foreach_add(squares, config_.rmsprop_eps);
    at::_foreach_sqrt_(roots);
    std::vector<at::Tensor> updates = at::_foreach_div(gradients, roots);
    std::visit([&](const auto& rate) { at::_foreach_mul_(updates, rate); }, group.OwnRate(learning_rate));
    at::_fused_sgd_(parameters, updates, group.WithGradient(momentum_[i]), /*weight_decay=*/0, config_.momentum,
                    /*lr=*/1, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false,
                    /*grad_scale=*/std::nullopt, found_inf);
  }
}

std::vector<NamedTensor> RmspropTf::State() const {
  std::vector<NamedTensor> state = Named("square_avg.", square_average_);
  for (auto& named : Named("", momentum_)) state.push_back(std::move(named));
  return state;
}

}  // namespace dtrain::optim
