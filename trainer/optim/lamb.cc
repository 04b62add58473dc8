// LAMB and StableAdamW, which differ in a factor. A skipped step may compute infinities, but everything that is kept is
// written by SubtractUnless, which skips it.
#include <ATen/ATen.h>

#include <cmath>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

ScaledAdam::ScaledAdam(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config)
    : Optimizer(std::move(groups)),
      config_(config),
      average_(Zeros()),
      average_of_squares_(Zeros()),
      step_(at::zeros({}, at::TensorOptions(at::kFloat).device(device()))) {}

// Computed in double, because 1 − 0.999 loses three digits.
at::Tensor ScaledAdam::BiasCorrection(double beta) const {
  return (1 - at::pow(beta, step_.to(at::kDouble))).to(at::kFloat);
}

void ScaledAdam::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  step_.add_(1);
  if (found_inf) step_.sub_(*found_inf);
  for (size_t i = 0; i < groups_.size(); ++i) StepGroup(i, learning_rate, found_inf);
}

void ScaledAdam::StepGroup(size_t i, const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  const ParameterGroup& group = groups_[i];
  GroupStep step{.parameters = group.WithGradient(group.parameters),
                 .gradients = group.Gradients(),
                 .squares = group.WithGradient(average_of_squares_[i]),
                 .updates = {}};
  if (step.gradients.empty()) return;
  const std::vector<at::Tensor> average = group.WithGradient(average_[i]);
  SubtractUnless(found_inf, average, at::_foreach_sub(average, step.gradients), 1 - config_.adam_betas[0]);
  SubtractUnless(found_inf, step.squares,
                 at::_foreach_sub(step.squares, at::_foreach_mul(step.gradients, step.gradients)),
                 1 - config_.adam_betas[1]);

  std::vector<at::Tensor>& updates = step.updates;
  updates = at::_foreach_sqrt(step.squares);
  at::_foreach_mul_(updates, BiasCorrection(config_.adam_betas[1]).rsqrt());
  at::_foreach_add_(updates, config_.adam_eps);
  at::_foreach_mul_(updates, BiasCorrection(config_.adam_betas[0]));
  updates = at::_foreach_div(average, updates);
  if (group.weight_decay != 0) at::_foreach_add_(updates, step.parameters, group.weight_decay);
  if (Scales(group)) at::_foreach_mul_(updates, Factors(step));
  SubtractUnless(found_inf, step.parameters, updates, group.OwnRate(learning_rate));
}

std::vector<NamedTensor> ScaledAdam::State() const {
  std::vector<NamedTensor> state = {{"step", step_}};
  for (auto& named : Named("exp_avg.", average_)) state.push_back(std::move(named));
  for (auto& named : Named("exp_avg_sq.", average_of_squares_)) state.push_back(std::move(named));
  return state;
}

std::vector<at::Tensor> Lamb::Factors(const GroupStep& step) const {
  const at::Tensor weights = NormOfEach(step.parameters), steps = NormOfEach(step.updates);
  return TrustOrOne(weights / steps, weights, steps).unbind();
}

std::vector<at::Tensor> StableAdamW::Factors(const GroupStep& step) const {
  std::vector<at::Tensor> roots = at::_foreach_div(step.squares, BiasCorrection(config_.adam_betas[1]));
  at::_foreach_clamp_min_(roots, config_.adam_eps * config_.adam_eps);
  at::_foreach_sqrt_(roots);
  std::vector<at::Tensor> factors = at::_foreach_norm(at::_foreach_div(step.gradients, roots));
  for (size_t i = 0; i < factors.size(); ++i) {
    factors[i].div_(std::sqrt(static_cast<double>(step.gradients[i].numel()))).clamp_min_(1).reciprocal_();
  }
  return factors;
}

}  // namespace dtrain::optim
