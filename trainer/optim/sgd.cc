// SGD and LARS. Momentum buffers start at zero, which gives v = g in the first step, as in torch.optim.SGD, without a
// special case. The gradients are not changed in place, because they are views of the buckets that are reduced between
// ranks.
#include <ATen/ATen.h>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {
namespace {

// Stochastic gradient descent as in torch.optim.SGD: g += wd·w; v = m·v + g; w −= lr·(nesterov ? g + m·v : v). With
// --lr_in_momentum, as in MXNet: g = lr·(g + wd·w), and the rate of the step is 1.
// State: `<parameter>` is its momentum; no state if momentum is 0.
class Sgd : public Optimizer {
 public:
  Sgd(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) override;
  std::vector<NamedTensor> State() const override { return Named("", momentum_); }

 protected:
  // The gradients of a group's parameters that have one, and the decay that is not in them yet.
  struct Descent {
    std::vector<at::Tensor> gradients;
    double weight_decay;
  };
  virtual Descent DescentOf(const ParameterGroup& group, const Rate& /*rate*/) const {
    return {group.Gradients(), group.weight_decay};
  }

  const config::OptimizerConfig config_;

 private:
  std::vector<std::vector<at::Tensor>> momentum_;  // by group
};

// LARS: You, Gitman and Ginsburg 2017 (arXiv:1708.03888), as in timm.optim.Lars, and LARC, as with its trust_clip: g =
// r·(g + wd·w), then a step of SGD with this g. In an adapted group r = trust·‖w‖ / (‖g‖ + wd·‖w‖ + 1e-8) for each
// parameter, or 1 if ‖w‖ or ‖g‖ is 0; with --lars_clip (LARC), r = min(1, r/lr), so that no parameter's own rate r
// exceeds lr. In other groups r = 1, and usually wd = 0.
class Lars : public Sgd {
 public:
  using Sgd::Sgd;

 private:
  Descent DescentOf(const ParameterGroup& group, const Rate& rate) const override;
};

Sgd::Sgd(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config)
    : Optimizer(std::move(groups)), config_(config), momentum_(Zeros(config.momentum != 0)) {}

void Sgd::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    if (group.Gradients().empty()) continue;
    const Rate rate = group.OwnRate(learning_rate);
    const std::vector<at::Tensor> parameters = group.WithGradient(group.parameters);
    auto [gradients, weight_decay] = DescentOf(group, rate);
    if (config_.lr_in_momentum) {
      gradients = at::_foreach_add(gradients, parameters, weight_decay);
      std::visit([&](const auto& number) { at::_foreach_mul_(gradients, number); }, rate);
      weight_decay = 0;
    }
    FusedSgd(parameters, gradients, group.WithGradient(momentum_[i]),
             {config_.momentum, config_.nesterov, weight_decay}, config_.lr_in_momentum ? Rate(1.0) : rate, found_inf);
  }
}

Sgd::Descent Lars::DescentOf(const ParameterGroup& group, const Rate& rate) const {
  constexpr double kEpsilon = 1e-8;
  constexpr double kAlreadyDecayed = 0;
  const std::vector<at::Tensor> parameters = group.WithGradient(group.parameters);
  std::vector<at::Tensor> gradients = group.Gradients();
  if (!group.adapted && group.weight_decay == 0) return {gradients, kAlreadyDecayed};
  if (!group.adapted) return {at::_foreach_add(gradients, parameters, group.weight_decay), kAlreadyDecayed};
  const at::Tensor weights = NormOfEach(parameters), steps = NormOfEach(gradients);
  gradients = at::_foreach_add(gradients, parameters, group.weight_decay);
  at::Tensor ratios =
      TrustOrOne(config_.lars_trust * weights / (steps + weights * group.weight_decay + kEpsilon), weights, steps);
  if (config_.lars_clip) {
    ratios = std::visit([&](const auto& number) { return (ratios / number).clamp_max(1); }, rate);
  }
  at::_foreach_mul_(gradients, ratios.unbind());
  return {gradients, kAlreadyDecayed};
}

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config) {
  return std::make_unique<Sgd>(std::move(groups), config);
}

std::unique_ptr<Optimizer> MakeLars(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config) {
  return std::make_unique<Lars>(std::move(groups), config);
}

}  // namespace dtrain::optim
