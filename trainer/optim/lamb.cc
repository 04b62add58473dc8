// LAMB and StableAdamW, which differ in a factor. A skipped step may compute infinities, but everything that is kept is
// written by SubtractUnless, which skips it.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {
namespace {

// Adam with decoupled weight decay whose step is scaled in each parameter by a factor of its own: w −= lr·factor·(m/(1
// − β1ᵗ)/(√(v/(1 − β2ᵗ)) + ε) + wd·w).
class ScaledAdam : public MomentOptimizer {
 public:
  ScaledAdam(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config)
      : MomentOptimizer(std::move(groups)), config_(config) {}
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) override;

 protected:
  // Of the parameters of a group that have a gradient.
  struct GroupStep {
    std::vector<at::Tensor> parameters, gradients, squares;  // `squares`: v of this step
    std::vector<at::Tensor> updates;                         // what the factors multiply
  };
  // Returns a factor for each parameter (scalars on the device).
  virtual std::vector<at::Tensor> Factors(const GroupStep& step) const = 0;
  virtual bool Scales(const ParameterGroup&) const { return true; }
  // Returns 1 − beta^step, a float32 scalar on the device.
  at::Tensor BiasCorrection(double beta) const;

  const config::OptimizerConfig config_;

 private:
  void StepGroup(size_t i, const Rate& learning_rate, const std::optional<at::Tensor>& found_inf);
};

// LAMB: You et al. 2019 (arXiv:1904.00962), as in timm.optim.Lamb but without its clipping, which --clip_norm does: in
// an adapted group, the factor is ‖w‖ / ‖u‖ of the weights and their update, unless one of them is 0.
class Lamb : public ScaledAdam {
 public:
  using ScaledAdam::ScaledAdam;

 private:
  std::vector<at::Tensor> Factors(const GroupStep& step) const override;
  bool Scales(const ParameterGroup& group) const override { return group.adapted; }
};

// StableAdamW: Wortsman et al. 2023 (arXiv:2304.13013), as in torch-optimi: the factor is 1 / max(1, RMS), with RMS² =
// mean(g² / max(v/(1 − β2ᵗ), ε²)), so that a gradient that exceeds its average makes no larger step.
class StableAdamW : public ScaledAdam {
 public:
  using ScaledAdam::ScaledAdam;

 private:
  std::vector<at::Tensor> Factors(const GroupStep& step) const override;
};

// Computed in double, because 1 − 0.999 loses three digits.
at::Tensor ScaledAdam::BiasCorrection(double beta) const {
  return (1 - at::pow(beta, step_.to(at::kDouble))).to(at::kFloat);
}

void ScaledAdam::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  CountStep(step_, found_inf);
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

std::vector<at::Tensor> Lamb::Factors(const GroupStep& step) const {
  const at::Tensor weights = NormOfEach(step.parameters), steps = NormOfEach(step.updates);
  return TrustOrOne(weights / steps, weights, steps).unbind();
}

std::vector<at::Tensor> StableAdamW::Factors(const GroupStep& step) const {
  std::vector<at::Tensor> roots = at::_foreach_div(step.squares, BiasCorrection(config_.adam_betas[1]));
  constexpr double kAboveZero = std::numeric_limits<float>::min();  // 0 / 0 would be the factor of the whole tensor
  at::_foreach_clamp_min_(roots, std::max(config_.adam_eps * config_.adam_eps, kAboveZero));
  at::_foreach_sqrt_(roots);
  std::vector<at::Tensor> factors = at::_foreach_norm(at::_foreach_div(step.gradients, roots));
  for (size_t i = 0; i < factors.size(); ++i) {
    factors[i].div_(std::sqrt(static_cast<double>(step.gradients[i].numel()))).clamp_min_(1).reciprocal_();
  }
  return factors;
}

}  // namespace

std::unique_ptr<Optimizer> MakeLamb(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config) {
  return std::make_unique<Lamb>(std::move(groups), config);
}

std::unique_ptr<Optimizer> MakeStableAdamW(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config) {
  return std::make_unique<StableAdamW>(std::move(groups), config);
}

}  // namespace dtrain::optim
