// The fused kernel takes a step count for each parameter; here all of them are the same tensor.
#include <ATen/ATen.h>

#include <limits>
#include <type_traits>

#include "models/element_of.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::optim {
namespace {

void RunAtensKernel(const AdamOptions& options, const AdamTensors& tensors, const at::Tensor& step,
                    const Rate& learning_rate, double weight_decay, const std::optional<at::Tensor>& found_inf) {
  const std::vector<at::Tensor> steps(tensors.parameters.size(), step);
  std::visit(
      [&]<typename Number>(const Number& rate) {
        // Chooses the overload that takes this type of rate.
        using RateArgument = std::conditional_t<std::is_same_v<Number, double>, double, const at::Tensor&>;
        using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                                at::TensorList, RateArgument, double, double, double, double, bool, bool,
                                const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
        const auto kernel = options.decoupled_weight_decay ? static_cast<Kernel>(&at::_fused_adamw_)
                                                           : static_cast<Kernel>(&at::_fused_adam_);
        kernel(tensors.parameters, tensors.gradients, tensors.average, tensors.average_of_squares,
               /*max_exp_avg_sqs=*/{}, steps, rate, options.beta1, options.beta2, weight_decay, options.epsilon,
               /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, found_inf);
      },
      learning_rate);
}

// A gradient may have another order of its elements than its parameter.
at::Tensor InOrderOf(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides() && gradient.scalar_type() == at::kFloat) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

kernels::AdamArguments ArgumentsOf(const AdamOptions& options, double weight_decay) {
  kernels::AdamArguments arguments{};
  arguments.beta1 = static_cast<float>(options.beta1);
  arguments.beta2 = static_cast<float>(options.beta2);
  arguments.weight_decay = static_cast<float>(weight_decay);
  arguments.epsilon = static_cast<float>(options.epsilon);
  arguments.decoupled_weight_decay = options.decoupled_weight_decay;
  return arguments;
}

void RunOwnKernel(const AdamOptions& options, const AdamTensors& tensors, const at::Tensor& step,
                  const Rate& learning_rate, double weight_decay, const std::optional<at::Tensor>& found_inf,
                  AdamKernel kernel) {
  const auto* number = std::get_if<double>(&learning_rate);
  const at::Tensor rate = number != nullptr ? at::full_like(step, *number) : std::get<at::Tensor>(learning_rate);
  kernels::AdamArguments arguments = ArgumentsOf(options, weight_decay);
  arguments.rate = rate.const_data_ptr<float>();
  arguments.step = step.const_data_ptr<float>();
  if (tensors.gradient_factor.defined()) arguments.factor = tensors.gradient_factor.const_data_ptr<float>();
  arguments.found_inf = found_inf ? found_inf->const_data_ptr<float>() : nullptr;
  auto type = models::kernels::Element::kFloat;
  std::vector<at::Tensor> gradients;  // live until the launch
  for (size_t i = 0; i < tensors.parameters.size(); ++i) {
    const at::Tensor& parameter = tensors.parameters[i];
    const at::Tensor& copy = tensors.copies[i];
    gradients.push_back(InOrderOf(parameter, tensors.gradients[i]));
    if (copy.defined()) type = models::ElementOf(copy);
    const int place = arguments.count++;
    arguments.weights[place] = {.weight = parameter.mutable_data_ptr<float>(),
                                .average = tensors.average[i].mutable_data_ptr<float>(),
                                .average_of_squares = tensors.average_of_squares[i].mutable_data_ptr<float>(),
                                .gradient = gradients.back().const_data_ptr<float>(),
                                .copy = copy.defined() ? copy.mutable_data_ptr() : nullptr,
                                .elements = parameter.numel()};
    arguments.first_block[place + 1] = arguments.first_block[place] + kernels::BlocksOf(parameter.numel());
    if (arguments.count < kernels::kMostWeights && i + 1 < tensors.parameters.size()) continue;
    kernel(arguments, type);
    arguments.count = 0;
  }
}

void RunKernel(const AdamOptions& options, const AdamTensors& tensors, const at::Tensor& step,
               const Rate& learning_rate, double weight_decay, const std::optional<at::Tensor>& found_inf,
               AdamKernel kernel) {
  if (kernel == nullptr) return RunAtensKernel(options, tensors, step, learning_rate, weight_decay, found_inf);
  RunOwnKernel(options, tensors, step, learning_rate, weight_decay, found_inf, kernel);
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
void FusedAdam(const AdamOptions& options, const AdamTensors& tensors, const at::Tensor& step,
               const Rate& learning_rate, double weight_decay, const std::optional<at::Tensor>& found_inf,
               AdamKernel kernel) {
  if (!options.epsilon_before_correction) {
    return RunKernel(options, tensors, step, learning_rate, weight_decay, found_inf, kernel);
  }
  if (weight_decay != 0) Decay(tensors.parameters, learning_rate, weight_decay, found_inf);
  const at::Tensor never = at::full_like(step, std::numeric_limits<double>::infinity());
  RunKernel(options, tensors, never, CorrectedRate(options, step, learning_rate), /*weight_decay=*/0, found_inf,
            kernel);
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
    AdamTensors tensors{group.WithGradient(group.parameters), gradients, group.WithGradient(average_[i]),
                        group.WithGradient(average_of_squares_[i])};
    if (kernel_ != nullptr) tensors.copies = group.WithGradient(copies_[i]);
    if (kernel_ != nullptr && gradient_factor_) tensors.gradient_factor = *gradient_factor_;
    FusedAdam(options_, tensors, step_, group.OwnRate(learning_rate), group.weight_decay, found_inf, kernel_);
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
