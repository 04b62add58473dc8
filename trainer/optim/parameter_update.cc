// Without a scaler the norm tells whether the gradients are finite: it is wanted for the log anyway.
#include "trainer/optim/parameter_update.h"

#include <ATen/ATen.h>

#include "trainer/optim/gradient_clip.h"

namespace dtrain::optim {

ParameterUpdate::ParameterUpdate(std::unique_ptr<Optimizer> optimizer, std::optional<LossScaler> scaler,
                                 double clip_norm, at::Device device)
    : optimizer_(std::move(optimizer)), scaler_(std::move(scaler)), clip_norm_(clip_norm) {
  const auto on_device = at::TensorOptions().device(device);
  gradient_norm_ = at::zeros({}, on_device.dtype(at::kFloat));
  skipped_ = at::zeros({}, on_device.dtype(at::kFloat));
  skipped_in_a_row_ = at::zeros({}, on_device.dtype(at::kLong));
}

void ParameterUpdate::Apply(std::vector<at::Tensor> gradients, double learning_rate) {
  at::NoGradGuard no_grad;
  if (scaler_) skipped_ = scaler_->Unscale(gradients);
  gradient_norm_ = GradientNorm(gradients);
  if (!scaler_) skipped_ = gradient_norm_.isfinite().logical_not().to(at::kFloat);
  if (clip_norm_ > 0) ClipToNorm(gradients, gradient_norm_, clip_norm_);
  optimizer_->Step(learning_rate, skipped_);
  if (scaler_) scaler_->Update(skipped_);
  skipped_in_a_row_.add_(1).mul_(skipped_.to(at::kLong));
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
