// Uses the two kernels of torch.amp.GradScaler, which itself exists only in Python.
#include "trainer/optim/loss_scaler.h"

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
  return {{"scaler.scale", scale_}, {"scaler.growth_tracker", growth_tracker_}};
}

}  // namespace dtrain::optim
