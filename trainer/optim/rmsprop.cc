// The momentum of TensorFlow's already contains the learning rate, so the last operation of a step is a step of SGD
// with a rate of 1; with PyTorch's, it is one with the rate itself.
#include <ATen/ATen.h>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {
namespace {

// RMSprop. As in TensorFlow, which recipes of image models from there assume, and in timm.optim.RMSpropTF: g += wd·w;
// s += (1 − α)(g² − s), with s = 1 at first; v = m·v + lr·g/√(s + ε); w −= v. With the name rmsprop as in
// torch.optim.RMSprop: s is 0 at first, v = m·v + g/(√s + ε), and w −= lr·v. State: `square_avg.<parameter>`, and
// `<parameter>`, its momentum, which is left out if momentum is 0.
class Rmsprop : public Optimizer {
 public:
  Rmsprop(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) override;
  std::vector<NamedTensor> State() const override;

 private:
  const config::OptimizerConfig config_;
  const bool is_tensorflows_;
  std::vector<std::vector<at::Tensor>> square_average_, momentum_;  // by group
};

Rmsprop::Rmsprop(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config)
    : Optimizer(std::move(groups)),
      config_(config),
      is_tensorflows_(config.name == "rmsprop_tf"),
      square_average_(Zeros()),
      momentum_(Zeros(config.momentum != 0)) {
  for (const auto& averages : square_average_) {
    if (is_tensorflows_) at::_foreach_add_(averages, 1);
  }
}

void Rmsprop::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
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

    std::vector<at::Tensor> roots =
        is_tensorflows_ ? at::_foreach_add(squares, config_.rmsprop_eps) : at::_foreach_sqrt(squares);
    is_tensorflows_ ? at::_foreach_sqrt_(roots) : at::_foreach_add_(roots, config_.rmsprop_eps);
    std::vector<at::Tensor> updates = at::_foreach_div(gradients, roots);
    Rate rate = group.OwnRate(learning_rate);
    if (is_tensorflows_) {
      std::visit([&](const auto& number) { at::_foreach_mul_(updates, number); }, rate);
      rate = 1.0;
    }
    FusedSgd(parameters, updates, group.WithGradient(momentum_[i]), {.momentum = config_.momentum}, rate, found_inf);
  }
}

std::vector<NamedTensor> Rmsprop::State() const {
  std::vector<NamedTensor> state = Named("square_avg.", square_average_);
  for (auto& named : Named("", momentum_)) state.push_back(std::move(named));
  return state;
}

}  // namespace

std::unique_ptr<Optimizer> MakeRmsprop(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config) {
  return std::make_unique<Rmsprop>(std::move(groups), config);
}

}  // namespace dtrain::optim
