// The fused kernel takes a step count for each parameter; here all of them are the same tensor.
#include <ATen/ATen.h>

#include <limits>
#include <type_traits>

#include "models/element_of.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::optim {
namespace {

void RunAtensKernel(const AdamStep& step) {
  const std::vector<at::Tensor> counts(step.parameters.size(), step.count);
  std::visit(
      [&]<typename Number>(const Number& rate) {
        // Chooses the overload that takes this type of rate.
        using RateArgument = std::conditional_t<std::is_same_v<Number, double>, double, const at::Tensor&>;
        using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                                at::TensorList, RateArgument, double, double, double, double, bool, bool,
                                const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
        const auto kernel = step.options.decoupled_weight_decay ? static_cast<Kernel>(&at::_fused_adamw_)
                                                                : static_cast<Kernel>(&at::_fused_adam_);
        kernel(step.parameters, step.gradients, step.average, step.average_of_squares, /*max_exp_avg_sqs=*/{}, counts,
               rate, step.options.beta1, step.options.beta2, step.weight_decay, step.options.epsilon,
               /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, step.found_inf);
      },
      step.rate);
}

// A gradient may have another order of its elements than its parameter.
at::Tensor InOrderOf(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides() && gradient.scalar_type() == at::kFloat) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

// The result points into `step` and `rate`.
kernels::AdamArguments ArgumentsOf(const AdamStep& step, const at::Tensor& rate) {
  kernels::AdamArguments arguments{};
  arguments.beta1 = static_cast<float>(step.options.beta1);
  arguments.beta2 = static_cast<float>(step.options.beta2);
  arguments.weight_decay = static_cast<float>(step.weight_decay);
  arguments.epsilon = static_cast<float>(step.options.epsilon);
  arguments.decoupled_weight_decay = step.options.decoupled_weight_decay;
  arguments.rate = rate.const_data_ptr<float>();
  arguments.step = step.count.const_data_ptr<float>();
  if (step.gradient_factor.defined()) arguments.factor = step.gradient_factor.const_data_ptr<float>();
  arguments.found_inf = step.found_inf ? step.found_inf->const_data_ptr<float>() : nullptr;
  return arguments;
}

void RunOwnKernel(const AdamStep& step) {
  const auto* number = std::get_if<double>(&step.rate);
  const at::Tensor rate = number != nullptr ? at::full_like(step.count, *number) : std::get<at::Tensor>(step.rate);
  kernels::AdamArguments arguments = ArgumentsOf(step, rate);
  auto type = models::kernels::Element::kFloat;
  std::vector<at::Tensor> gradients;  // live until the launch
  for (size_t i = 0; i < step.parameters.size(); ++i) {
    const at::Tensor& parameter = step.parameters[i];
    const at::Tensor& copy = step.copies[i];
    gradients.push_back(InOrderOf(parameter, step.gradients[i]));
    if (copy.defined()) type = models::ElementOf(copy);
    const int place = arguments.count++;
    arguments.weights[place] = {.weight = parameter.mutable_data_ptr<float>(),
                                .average = step.average[i].mutable_data_ptr<float>(),
                                .average_of_squares = step.average_of_squares[i].mutable_data_ptr<float>(),
                                .gradient = gradients.back().const_data_ptr<float>(),
                                .copy = copy.defined() ? copy.mutable_data_ptr() : nullptr,
                                .elements = parameter.numel()};
    arguments.first_block[place + 1] = arguments.first_block[place] + kernels::BlocksOf(parameter.numel());
    if (arguments.count < kernels::kMostWeights && i + 1 < step.parameters.size()) continue;
    step.kernel(arguments, type);
    arguments.count = 0;
  }
}

// Returns lr·√(1 − β2ᵗ)/(1 − β1ᵗ), computed in double, because 1 − 0.999 loses three digits.
at::Tensor CorrectedRate(const AdamStep& step) {
  const at::Tensor t = step.count.to(at::kDouble);
  const at::Tensor factor = (1 - at::pow(step.options.beta2, t)).sqrt() / (1 - at::pow(step.options.beta1, t));
  return std::visit([&](const auto& rate) { return (factor * rate).to(at::kFloat); }, step.rate);
}

// w −= lr·wd·w. A factor of 1 − lr·wd would lose two of the few digits that float32 has for it.
void Decay(const AdamStep& step) {
  const Rate rate = std::visit([&](const auto& number) { return Rate(number * step.weight_decay); }, step.rate);
  SubtractUnless(step.found_inf, step.parameters, step.parameters, rate);
}

// The kernel corrects √v before it adds ε. At an infinite step its corrections are 1, so those of this step are put
// into the rate; the weights decay before, because the decay takes the rate as it is.
void CorrectBeforeKernel(AdamStep& step) {
  if (step.weight_decay != 0) Decay(step);
  step.rate = CorrectedRate(step);
  step.count = at::full_like(step.count, std::numeric_limits<double>::infinity());
  step.weight_decay = 0;
}

}  // namespace

void FusedAdam(AdamStep step) {
  if (step.options.epsilon_before_correction) CorrectBeforeKernel(step);
  if (step.kernel == nullptr) return RunAtensKernel(step);
  RunOwnKernel(step);
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
    AdamStep step{.options = options_,
                  .parameters = group.WithGradient(group.parameters),
                  .gradients = gradients,
                  .average = group.WithGradient(average_[i]),
                  .average_of_squares = group.WithGradient(average_of_squares_[i]),
                  .count = step_,
                  .rate = group.OwnRate(learning_rate),
                  .weight_decay = group.weight_decay,
                  .found_inf = found_inf,
                  .kernel = kernel_};
    if (kernel_ != nullptr) step.copies = group.WithGradient(copies_[i]);
    if (kernel_ != nullptr && gradient_factor_) step.gradient_factor = *gradient_factor_;
    FusedAdam(std::move(step));
  }
}

void Adam::UseKernel(AdamKernel kernel, const models::HalfWeights& half_weights) {
  kernel_ = kernel;
  copies_.clear();
  for (const ParameterGroup& group : groups_) {
    copies_.emplace_back();
    for (const at::Tensor& parameter : group.parameters) copies_.back().push_back(half_weights.PartOf(parameter));
  }
}

std::vector<NamedTensor> Adam::State() const {
  std::vector<NamedTensor> state = {{"step", step_}};
  for (auto& named : Named("exp_avg.", average_)) state.push_back(std::move(named));
  for (auto& named : Named("exp_avg_sq.", average_of_squares_)) state.push_back(std::move(named));
  return state;
}

}  // namespace dtrain::optim
