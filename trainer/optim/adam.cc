// Adam, of weights of single and of half precision. The fused kernel takes a step count for each parameter; here all of
// them are the same tensor.
#include <ATen/ATen.h>

#include <limits>
#include <type_traits>

#include "models/device_kernels.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::optim {
namespace {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool decoupled_weight_decay = false;     // AdamW (Loshchilov and Hutter 2017) rather than Adam with L2
  bool epsilon_before_correction = false;  // ε is added to √v itself (fairseq), not to its bias-corrected value
};

// A step of one group of parameters; the lists have the same length.
struct AdamStep {
  AdamOptions options;
  std::vector<at::Tensor> parameters, gradients, average, average_of_squares;
  at::Tensor count;  // float32 scalar: the steps done, this one included
  Rate rate;
  double weight_decay = 0;
  std::optional<at::Tensor> found_inf = {};
  AdamKernel kernel = nullptr;          // null: ATen's fused kernel, which knows neither of these:
  std::vector<at::Tensor> copies = {};  // undefined where there is none
  at::Tensor gradient_factor = {};      // float32 scalar, or undefined
};

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

void FusedAdam(AdamStep step) {
  if (step.options.epsilon_before_correction) CorrectBeforeKernel(step);
  if (step.kernel == nullptr) return RunAtensKernel(step);
  RunOwnKernel(step);
}

// Adam (Kingma and Ba 2014, arXiv:1412.6980) as in torch.optim.Adam and AdamW; with both options, as in fairseq's
// `adam`: w −= lr·wd·w; then w −= lr·√(1 − β2ᵗ)/(1 − β1ᵗ) · m/(√v + ε).
class Adam : public MomentOptimizer {
 public:
  Adam(std::vector<ParameterGroup> groups, const AdamOptions& options)
      : MomentOptimizer(std::move(groups)), options_(options) {}
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) override;
  void UseKernel(AdamKernel kernel, const models::HalfWeights& half_weights) override;
  bool writes_copies() const override { return kernel_ != nullptr; }
  bool takes_factor() const override { return kernel_ != nullptr; }

 private:
  AdamOptions options_;
  AdamKernel kernel_ = nullptr;
  std::vector<std::vector<at::Tensor>> copies_;  // by group
};

void Adam::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  CountStep(step_, found_inf);
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
  if (kernel == nullptr) return;
  kernel_ = kernel;
  copies_.clear();
  for (const ParameterGroup& group : groups_) {
    copies_.emplace_back();
    for (const at::Tensor& parameter : group.parameters) copies_.back().push_back(half_weights.PartOf(parameter));
  }
}

// Adam for models whose weights and gradients are of half precision (fairseq's --memory-efficient-fp16), with moments
// of half precision, too: 8 bytes per parameter in all instead of 16. It computes in float32, on a part of the
// parameters at a time.
//
// Half precision reaches from 6e-8 to 65,504, and moments are often smaller than that. So the first moment m and the
// square root of the second moment are stored as fractions of a bound that no element exceeds,
// |m| ≤ peak ← β1·peak + (1 − β1)·max|g|, and likewise for the root. The root is stored because its range is that of
// the gradients; the second moment itself has twice the range of exponents. Weights are rounded as in fairseq.
//
// State: `exp_avg.<parameter>` and `exp_avg_sq_root.<parameter>` (half precision), `peaks` (float32: for each group the
// bounds of the first moments and of the roots), and `step` (skipped steps do not count).
class MemoryEfficientAdam : public Optimizer {
 public:
  // The parameters must be of half precision.
  MemoryEfficientAdam(std::vector<ParameterGroup> groups, const AdamOptions& options);
  bool takes_factor() const override { return true; }
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) override;
  std::vector<NamedTensor> State() const override;

 private:
  at::Tensor NextPeaks(const ParameterGroup& group, const at::Tensor& peaks) const;
  void StepPart(size_t group, size_t begin, size_t end, const at::Tensor& next_peaks, const Rate& learning_rate,
                const std::optional<at::Tensor>& found_inf);

  AdamOptions options_;
  std::vector<std::vector<at::Tensor>> average_, root_;  // as fractions of the peaks, by group
  at::Tensor step_;                                      // as StepCount
  at::Tensor peaks_;                                     // float32, groups × 2
};

constexpr int64_t kPartElements = int64_t{16} << 20;  // of a part; a larger parameter is a part by itself
constexpr double kTop = 65000;                        // the stored value of the peak; half precision ends at 65,504
constexpr double kLeast = 1e-30;                      // the least peak, so that nothing is divided by 0

std::vector<at::Tensor> InFloat(const std::vector<at::Tensor>& tensors, size_t begin, size_t end) {
  std::vector<at::Tensor> copies;
  for (size_t i = begin; i < end; ++i) copies.push_back(tensors[i].to(at::kFloat));
  return copies;
}

void Store(const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& tensors, size_t begin) {
  for (size_t i = 0; i < values.size(); ++i) at::Tensor(tensors[begin + i]).copy_(values[i]);
}

at::Tensor Largest(const std::vector<at::Tensor>& tensors) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return at::stack(at::_foreach_norm(tensors, kInfinity, at::kFloat)).max();
}

MemoryEfficientAdam::MemoryEfficientAdam(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Optimizer(std::move(groups)),
      options_(options),
      average_(Zeros()),
      root_(Zeros()),
      step_(StepCount()),
      peaks_(at::zeros({static_cast<int64_t>(groups_.size()), 2}, step_.options())) {}

// It makes its float32 copies for one part of the parameters at a time, and frees them before the next part.
void MemoryEfficientAdam::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  CountStep(step_, found_inf);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const std::vector<at::Tensor>& parameters = groups_[i].parameters;
    if (groups_[i].Gradients().empty()) continue;
    at::Tensor peaks = peaks_[static_cast<int64_t>(i)], next_peaks = NextPeaks(groups_[i], peaks);
    if (found_inf) next_peaks = at::where(found_inf->eq(0), next_peaks, peaks);
    if (groups_[i].Gradients().size() < parameters.size()) next_peaks = at::maximum(next_peaks, peaks);
    next_peaks.clamp_min_(kLeast);
    size_t begin = 0;
    int64_t elements = 0;
    for (size_t end = 1; end <= parameters.size(); ++end) {
      elements += parameters[end - 1].numel();
      if (end < parameters.size() && elements + parameters[end].numel() <= kPartElements) continue;
      StepPart(i, begin, end, next_peaks, learning_rate, found_inf);
      begin = end;
      elements = 0;
    }
    peaks.copy_(next_peaks);
  }
}

// If the decay is not decoupled, Adam's gradient contains the decayed weights, so the peaks must bound these, too.
at::Tensor MemoryEfficientAdam::NextPeaks(const ParameterGroup& group, const at::Tensor& peaks) const {
  at::Tensor largest = Largest(group.Gradients());
  if (gradient_factor_) largest = largest * *gradient_factor_;
  if (!options_.decoupled_weight_decay && group.weight_decay > 0) {
    largest = largest + Largest(group.parameters) * group.weight_decay;
  }
  const at::Tensor average = peaks[0] * options_.beta1 + largest * (1 - options_.beta1);
  const at::Tensor root = (peaks[1].square() * options_.beta2 + largest.square() * (1 - options_.beta2)).sqrt();
  return at::stack({average, root});
}

void MemoryEfficientAdam::StepPart(size_t group_index, size_t begin, size_t end, const at::Tensor& next_peaks,
                                   const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  const ParameterGroup& group = groups_[group_index];
  const at::Tensor now = peaks_[static_cast<int64_t>(group_index)] / kTop, next = next_peaks / kTop;
  const std::vector<at::Tensor> weights = InFloat(group.parameters, begin, end);
  const std::vector<at::Tensor> average = InFloat(average_[group_index], begin, end);
  const std::vector<at::Tensor> square = InFloat(root_[group_index], begin, end);
  at::_foreach_mul_(average, now[0]);
  at::_foreach_mul_(square, now[1]);
  at::_foreach_mul_(square, square);

  std::vector<at::Tensor> gradients, moved, moved_average, moved_square;
  for (size_t i = begin; i < end; ++i) {
    const at::Tensor gradient = group.parameters[i].grad();
    if (!gradient.defined()) continue;  // its moments are still stored again, as fractions of the new peaks
    gradients.push_back(gradient.to(at::kFloat));
    moved.push_back(weights[i - begin]);
    moved_average.push_back(average[i - begin]);
    moved_square.push_back(square[i - begin]);
  }
  if (!gradients.empty()) {
    if (gradient_factor_) at::_foreach_mul_(gradients, *gradient_factor_);
    FusedAdam({.options = options_,
               .parameters = moved,
               .gradients = gradients,
               .average = moved_average,
               .average_of_squares = moved_square,
               .count = step_,
               .rate = group.OwnRate(learning_rate),
               .weight_decay = group.weight_decay,
               .found_inf = found_inf});
  }
  at::_foreach_sqrt_(square);
  at::_foreach_div_(average, next[0]);
  at::_foreach_div_(square, next[1]);
  Store(weights, group.parameters, begin);
  Store(average, average_[group_index], begin);
  Store(square, root_[group_index], begin);
}

std::vector<NamedTensor> MemoryEfficientAdam::State() const {
  std::vector<NamedTensor> state = {{"step", step_}, {"peaks", peaks_}};
  for (auto& named : Named("exp_avg.", average_)) state.push_back(std::move(named));
  for (auto& named : Named("exp_avg_sq_root.", root_)) state.push_back(std::move(named));
  return state;
}

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config) {
  const AdamOptions options{.beta1 = config.adam_betas.at(0),
                            .beta2 = config.adam_betas.at(1),
                            .epsilon = config.adam_eps,
                            .decoupled_weight_decay = config.name != "adam",
                            .epsilon_before_correction = config.name == "fairseq_adam"};
  const bool is_half = !groups.empty() && groups.front().parameters.front().scalar_type() == at::kHalf;
  if (is_half) return std::make_unique<MemoryEfficientAdam>(std::move(groups), options);
  return std::make_unique<Adam>(std::move(groups), options);
}

}  // namespace dtrain::optim
