// The fused kernel takes a step count for each parameter; here all of them are the same tensor.
#include <ATen/ATen.h>

#include <limits>
#include <type_traits>

#include "trainer/optim/optimizer.h"
#include "trainer/optim/tensor_lists.h"

namespace dtrain::optim {
namespace {

void RunKernel(const AdamOptions& options, at::TensorList parameters, at::TensorList gradients, at::TensorList average,
               at::TensorList average_of_squares, const at::Tensor& step, const Rate& learning_rate,
               double weight_decay, const std::optional<at::Tensor>& found_inf) {
  const std::vector<at::Tensor> steps(parameters.size(), step);
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

// Returns lr·√(1 − β2ᵗ)/(1 − β1ᵗ), computed in double, because 1 − 0.999 loses three digits.
at::Tensor CorrectedRate(const AdamOptions& options, const at::Tensor& step, const Rate& learning_rate) {
  const at::Tensor t = step.to(at::kDouble);
  const at::Tensor factor = (1 - at::pow(options.beta2, t)).sqrt() / (1 - at::pow(options.beta1, t));
  return std::visit([&](const auto& rate) { return (factor * rate).to(at::kFloat); }, learning_rate);
}

// w −= lr·wd·w. A factor of 1 − lr·wd would lose two of the few digits that float32 has for it.
void Decay(at::TensorList parameters, const Rate& learning_rate, double weight_decay,
           const std::optional<at::Tensor>& found_inf) {
  const Rate rate = std::visit([&](const auto& number) { return Rate(number * weight_decay); }, learning_rate);
  SubtractUnless(found_inf, parameters, parameters, rate);
}

}  // namespace

// The kernel corrects √v before it adds ε. At an infinite step its corrections are 1, so those of this step are put
// into the rate; the weights decay before, because the decay takes the rate as it is.
void FusedAdam(const AdamOptions& options, at::TensorList parameters, at::TensorList gradients, at::TensorList average,
               at::TensorList average_of_squares, const at::Tensor& step, const Rate& learning_rate,
               double weight_decay, const std::optional<at::Tensor>& found_inf) {
  if (!options.epsilon_before_correction) {
    return RunKernel(options, parameters, gradients, average, average_of_squares, step, learning_rate, weight_decay,
                     found_inf);
  }
  if (weight_decay != 0) Decay(parameters, learning_rate, weight_decay, found_inf);
  const at::Tensor never = at::full_like(step, std::numeric_limits<double>::infinity());
  RunKernel(options, parameters, gradients, average, average_of_squares, never,
            CorrectedRate(options, step, learning_rate), /*weight_decay=*/0, found_inf);
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
    FusedAdam(options_, group.WithGradient(group.parameters), gradients, group.WithGradient(average_[i]),
              group.WithGradient(average_of_squares_[i]), step_, group.OwnRate(learning_rate), group.weight_decay,
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
