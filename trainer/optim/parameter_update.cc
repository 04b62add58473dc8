// Without a scaler the norm, which the log needs anyway, tells whether the gradients are finite.
#include "trainer/optim/parameter_update.h"

#include <ATen/ATen.h>

namespace dtrain::optim {

LossScaler::LossScaler(const LossScalerOptions& options, at::Device device) : options_(options) {
  const auto on_device = at::TensorOptions().device(device);
  scale_ = at::full({}, options.initial, on_device.dtype(at::kFloat));
  growth_tracker_ = at::zeros({}, on_device.dtype(at::kInt));
}

// Computed in double, as in GradScaler, because the scale need not be a power of two.
at::Tensor LossScaler::Inverse() const { return scale_.to(at::kDouble).reciprocal().to(at::kFloat); }

at::Tensor LossScaler::Unscale(std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& factor) {
  at::NoGradGuard no_grad;
  at::Tensor found_inf = at::zeros_like(scale_);
  at::Tensor inverse = Inverse();
  if (factor) inverse *= *factor;
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse);
  return found_inf;
}

void LossScaler::Update(const at::Tensor& found_inf) {
  if (!options_.dynamic) return;
  at::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, options_.growth, options_.backoff,
                         options_.growth_interval);
}

std::vector<NamedTensor> LossScaler::State() const {
  if (!options_.dynamic) return {};
  return {{"scaler.scale", scale_}, {"scaler.growth_tracker", growth_tracker_}};
}

at::Tensor GradientNorm(const std::vector<at::Tensor>& gradients) {
  at::NoGradGuard no_grad;
  constexpr double kEuclidean = 2;
  const bool is_half = !gradients.empty() && gradients.front().scalar_type() == at::kHalf;
  // The norm of scaled gradients may exceed the range of half precision.
  const auto type = is_half ? std::optional(at::kFloat) : std::nullopt;
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, kEuclidean, type)));
}

// The factor stays on the device, and gradients are always multiplied by it: a branch would make the host wait for it.
at::Tensor ClipFactor(const at::Tensor& norm, double max_norm) {
  at::NoGradGuard no_grad;
  const at::Tensor quotient = (norm + 1e-6).reciprocal() * max_norm;  // as Python's torch divides a number by a tensor
  return at::clamp_max(quotient, 1.0);
}

ParameterUpdate::ParameterUpdate(std::unique_ptr<Optimizer> optimizer, std::optional<LossScaler> scaler,
                                 double clip_norm, at::Device device, models::HalfWeights half_weights)
    : optimizer_(std::move(optimizer)),
      scaler_(std::move(scaler)),
      clip_norm_(clip_norm),
      half_weights_(std::move(half_weights)) {
  const auto on_device = at::TensorOptions().device(device);
  gradient_norm_ = at::zeros({}, on_device.dtype(at::kFloat));
  skipped_ = at::zeros({}, on_device.dtype(at::kFloat));
  not_finite_ = at::zeros({}, on_device.dtype(at::kFloat));
  skipped_in_a_row_ = at::zeros({}, on_device.dtype(at::kLong));
}

void ParameterUpdate::Apply(std::vector<at::Tensor> gradients, const Rate& learning_rate,
                            const std::optional<at::Tensor>& factor, const std::optional<at::Tensor>& skip) {
  at::NoGradGuard no_grad;
  not_finite_.copy_(optimizer_->takes_factor() ? LeaveToOptimizer(gradients, factor) : Unscale(gradients, factor));
  skipped_.copy_(factor ? at::maximum(not_finite_, factor->eq(0).to(at::kFloat)) : not_finite_);
  if (skip) skipped_.copy_(at::maximum(skipped_, *skip));
  optimizer_->Step(learning_rate, skipped_);
  if (!optimizer_->writes_copies()) half_weights_.Write();
  if (scaler_) scaler_->Update(not_finite_);
  skipped_in_a_row_.add_(not_finite_.to(at::kLong)).mul_(skipped_.to(at::kLong));
}

// Gradients of half precision are not changed.
at::Tensor ParameterUpdate::LeaveToOptimizer(const std::vector<at::Tensor>& gradients,
                                             const std::optional<at::Tensor>& factor) {
  gradient_norm_.copy_(GradientNorm(gradients));
  const at::Tensor not_finite = gradient_norm_.isfinite().logical_not().to(at::kFloat);
  at::Tensor remaining = factor ? *factor : at::ones_like(gradient_norm_);
  if (scaler_) remaining = remaining * scaler_->Inverse();
  gradient_norm_ *= remaining;
  if (clip_norm_ > 0) remaining = remaining * ClipFactor(gradient_norm_, clip_norm_);
  optimizer_->MultiplyGradientsBy(remaining);
  return not_finite;
}

// The factor is multiplied in while unscaling or clipping; it takes a pass of its own only if there is neither.
at::Tensor ParameterUpdate::Unscale(std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& factor) {
  std::optional<at::Tensor> remaining = factor;
  at::Tensor not_finite;
  if (scaler_) {
    not_finite = scaler_->Unscale(gradients, factor);
    remaining.reset();
  }
  gradient_norm_.copy_(GradientNorm(gradients));
  if (remaining) gradient_norm_ *= *remaining;
  if (!scaler_) not_finite = gradient_norm_.isfinite().logical_not().to(at::kFloat);
  if (clip_norm_ > 0) {
    const at::Tensor clip = ClipFactor(gradient_norm_, clip_norm_);
    remaining = remaining ? clip * *remaining : clip;
  }
  if (remaining) at::_foreach_mul_(gradients, *remaining);
  return not_finite;
}

std::optional<double> ParameterUpdate::loss_scale() const {
  if (!scaler_) return std::nullopt;
  return scaler_->scale();
}

std::vector<NamedTensor> ParameterUpdate::State() const {
  std::vector<NamedTensor> state = optimizer_->State();
  if (scaler_) {
    for (auto& tensor : scaler_->State()) state.push_back(std::move(tensor));
  }
  state.emplace_back("skipped_in_a_row", skipped_in_a_row_);
  return state;
}

}  // namespace dtrain::optim
