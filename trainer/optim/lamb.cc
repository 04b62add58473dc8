// A skipped step may compute infinities, but everything that is kept is written by SubtractUnless, which skips it.
#include <ATen/ATen.h>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

Lamb::Lamb(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config)
    : Optimizer(std::move(groups)),
      config_(config),
      average_(Zeros()),
      average_of_squares_(Zeros()),
      step_(at::zeros({}, at::TensorOptions(at::kFloat).device(device()))) {}

// Computed in double, because 1 − 0.999 loses three digits.
at::Tensor Lamb::BiasCorrection(double beta) const { return (1 - at::pow(beta, step_.to(at::kDouble))).to(at::kFloat); }

void Lamb::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  step_.add_(1);
  if (found_inf) step_.sub_(*found_inf);
  for (size_t i = 0; i < groups_.size(); ++i) StepGroup(i, learning_rate, found_inf);
}

void Lamb::StepGroup(size_t i, const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  const ParameterGroup& group = groups_[i];
  const std::vector<at::Tensor> gradients = group.Gradients();
  if (gradients.empty()) return;
  const std::vector<at::Tensor> parameters = group.WithGradient(group.parameters);
  const std::vector<at::Tensor> average = group.WithGradient(average_[i]);
  const std::vector<at::Tensor> squares = group.WithGradient(average_of_squares_[i]);
  SubtractUnless(found_inf, average, at::_foreach_sub(average, gradients), 1 - config_.adam_betas[0]);
  SubtractUnless(found_inf, squares, at::_foreach_sub(squares, at::_foreach_mul(gradients, gradients)),
                 1 - config_.adam_betas[1]);

  std::vector<at::Tensor> updates = at::_foreach_sqrt(squares);
  at::_foreach_mul_(updates, BiasCorrection(config_.adam_betas[1]).rsqrt());
  at::_foreach_add_(updates, config_.adam_eps);
  at::_foreach_mul_(updates, BiasCorrection(config_.adam_betas[0]));
  updates = at::_foreach_div(average, updates);
  if (group.weight_decay != 0) at::_foreach_add_(updates, parameters, group.weight_decay);
  if (group.adapted) {
    const at::Tensor weights = NormOfEach(parameters), steps = NormOfEach(updates);
    at::_foreach_mul_(updates, TrustOrOne(weights / steps, weights, steps).unbind());
  }
  SubtractUnless(found_inf, parameters, updates, group.OwnRate(learning_rate));
}

std::vector<NamedTensor> Lamb::State() const {
  std::vector<NamedTensor> state = {{"step", step_}};
  for (auto& named : Named("exp_avg.", average_)) state.push_back(std::move(named));
  for (auto& named : Named("exp_avg_sq.", average_of_squares_)) state.push_back(std::move(named));
  return state;
}

}  // namespace dtrain::optim
