// The fused kernel takes a step count for each parameter; here all of them are the same tensor.
#include <ATen/ATen.h>

#include <type_traits>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

void FusedAdam(const AdamOptions& options, at::TensorList parameters, at::TensorList gradients, at::TensorList average,
               at::TensorList average_of_squares, at::TensorList steps, const Rate& learning_rate, double weight_decay,
               const std::optional<at::Tensor>& found_inf) {
  std::visit(
      [&]<typename Number>(const Number& rate) {
        // Chooses the overload that takes this type of rate.
        using RateArgument = std::conditional_t<std::is_same_v<Number, double>, double, const at::Tensor&>;
        using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                                at::TensorList, RateArgument, double, double, double, double, bool, bool,
                                const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
        const auto kernel = options.decoupled_weight_decay ? static_cast<Kernel>(&at::_fused_adamw_)
                                                           : static_cast<Kernel>(&at::_fused_adam_);
        kernel(parameters, gradients, average, average_of_squares, /*max_exp_avg_sqs=*/{}, steps, rate, options.beta1,
               options.beta2, weight_decay, options.epsilon, /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{},
               found_inf);
      },
      learning_rate);
}

Adam::Adam(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Optimizer(std::move(groups)),
      options_(options),
      average_(Zeros()),
      average_of_squares_(Zeros()),
      step_(at::zeros({}, at::TensorOptions(at::kFloat).device(device()))) {}

void Adam::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  step_.add_(1);
  if (found_inf) step_.sub_(*found_inf);  // a skipped step does not count
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    const std::vector<at::Tensor> gradients = group.Gradients();
    if (gradients.empty()) continue;
    const std::vector<at::Tensor> steps(gradients.size(), step_);
    FusedAdam(options_, group.WithGradient(group.parameters), gradients, group.WithGradient(average_[i]),
              group.WithGradient(average_of_squares_[i]), steps, group.OwnRate(learning_rate), group.weight_decay,
              found_inf);
  }
}

std::vector<NamedTensor> Adam::State() const {
  std::vector<NamedTensor> state = {{"step", step_}};
  for (auto& named : Named("exp_avg.", average_)) state.push_back(std::move(named));
  for (auto& named : Named("exp_avg_sq.", average_of_squares_)) state.push_back(std::move(named));
  return state;
}

}  // namespace dtrain::optim
