// A step makes its float32 copies for one part of the parameters at a time, and frees them before the next part.
#include "trainer/optim/memory_efficient_adam.h"

#include <ATen/ATen.h>

#include <limits>

namespace dtrain::optim {
namespace {

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

}  // namespace

MemoryEfficientAdam::MemoryEfficientAdam(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Optimizer(std::move(groups)), options_(options) {
  const auto device = groups_.empty() ? at::Device(at::kCPU) : groups_.front().parameters.front().device();
  const auto on_device = at::TensorOptions(at::kFloat).device(device);
  step_ = at::zeros({}, on_device);
  peaks_ = at::zeros({static_cast<int64_t>(groups_.size()), 2}, on_device);
  for (size_t i = 0; i < groups_.size(); ++i) {
    Moments moments;
    for (const at::Tensor& parameter : groups_[i].parameters) {
      moments.average.push_back(at::zeros_like(parameter));
      moments.root.push_back(at::zeros_like(parameter));
    }
    moments.peaks = peaks_[static_cast<int64_t>(i)];
    moments_.push_back(std::move(moments));
  }
}

void MemoryEfficientAdam::Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  at::NoGradGuard no_grad;
  step_.add_(1);
  if (found_inf) step_.sub_(*found_inf);  // a skipped step does not count
  for (size_t i = 0; i < groups_.size(); ++i) {
    const std::vector<at::Tensor>& parameters = groups_[i].parameters;
    if (groups_[i].Gradients().empty()) continue;
    at::Tensor next_peaks = NextPeaks(groups_[i], moments_[i]);
    if (found_inf) next_peaks = at::where(found_inf->eq(0), next_peaks, moments_[i].peaks);
    size_t begin = 0;
    int64_t elements = 0;
    for (size_t end = 1; end <= parameters.size(); ++end) {
      elements += parameters[end - 1].numel();
      if (end < parameters.size() && elements + parameters[end].numel() <= kPartElements) continue;
      StepPart(i, begin, end, next_peaks, learning_rate, found_inf);
      begin = end;
      elements = 0;
    }
    moments_[i].peaks.copy_(next_peaks);
  }
}

// If the decay is not decoupled, Adam's gradient contains the decayed weights, so the peaks must bound these, too.
at::Tensor MemoryEfficientAdam::NextPeaks(const ParameterGroup& group, const Moments& moments) const {
  at::Tensor largest = Largest(group.Gradients());
  if (gradient_factor_) largest = largest * *gradient_factor_;
  if (!options_.decoupled_weight_decay && group.weight_decay > 0) {
    largest = largest + Largest(group.parameters) * group.weight_decay;
  }
  const at::Tensor average = moments.peaks[0] * options_.beta1 + largest * (1 - options_.beta1);
  const at::Tensor root = (moments.peaks[1].square() * options_.beta2 + largest.square() * (1 - options_.beta2)).sqrt();
  return at::stack({average, root}).clamp_min(kLeast);
}

void MemoryEfficientAdam::StepPart(size_t group_index, size_t begin, size_t end, const at::Tensor& next_peaks,
                                   const Rate& learning_rate, const std::optional<at::Tensor>& found_inf) {
  const ParameterGroup& group = groups_[group_index];
  Moments& moments = moments_[group_index];
  const at::Tensor now = moments.peaks / kTop, next = next_peaks / kTop;
  const std::vector<at::Tensor> weights = InFloat(group.parameters, begin, end);
  const std::vector<at::Tensor> average = InFloat(moments.average, begin, end);
  const std::vector<at::Tensor> square = InFloat(moments.root, begin, end);
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
  Store(average, moments.average, begin);
  Store(square, moments.root, begin);
}

std::vector<NamedTensor> MemoryEfficientAdam::State() const {
  std::vector<NamedTensor> state = {{"step", step_}, {"peaks", peaks_}};
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (size_t j = 0; j < groups_[i].names.size(); ++j) {
      state.emplace_back("exp_avg." + groups_[i].names[j], moments_[i].average[j]);
      state.emplace_back("exp_avg_sq_root." + groups_[i].names[j], moments_[i].root[j]);
    }
  }
  return state;
}

}  // namespace dtrain::optim
