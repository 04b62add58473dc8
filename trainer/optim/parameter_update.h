// Updates the weights from the gradients: unscales, clips and calls the optimizer. A step whose gradients are not
// finite is skipped: it changes neither the weights nor the optimizer's state. All ranks skip the same steps, because
// all have the same reduced gradients. The decision is made on the device, and the host does not wait for it. Nothing
// here draws from torch's generators, which differ among ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/half_weights.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

// The defaults are those of torch.amp.GradScaler. If `dynamic`, the scale is multiplied by `growth` after
// `growth_interval` steps in a row with finite gradients, and by `backoff` after any other step; else it is constant.
struct LossScalerOptions {
  bool dynamic = true;
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  int64_t growth_interval = 2000;
};

// Keeps small fp16 gradients from vanishing: the loss is multiplied by a scale before the backward pass, the gradients
// are divided by it afterwards, and a step whose gradients are not finite is skipped. The host does not wait for the
// device unless a method says so. Uses the two kernels of torch.amp.GradScaler, which itself exists only in Python.
class LossScaler {
 public:
  LossScaler(const LossScalerOptions& options, at::Device device);

  at::Tensor Scale(const at::Tensor& loss) const { return loss * scale_; }

  // Returns 1 / scale, a float32 scalar on the device.
  at::Tensor Inverse() const;

  // In one pass, divides the gradients by the scale, multiplies them by `factor` (a float32 scalar on the device), and
  // checks them. Returns a float32 scalar on the device: 1 if any element was infinite or NaN, else 0.
  at::Tensor Unscale(std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& factor = std::nullopt);

  // Updates the scale after the optimizer's step. `found_inf` is the result of Unscale.
  void Update(const at::Tensor& found_inf);

  // Waits for the device.
  double scale() const { return scale_.item<double>(); }

  // Returns `scaler.scale` and `scaler.growth_tracker` for checkpoints; the tensors are shared, not copied. A scale
  // that does not change is what the flag says, also after a resume.
  std::vector<NamedTensor> State() const;

 private:
  LossScalerOptions options_;
  at::Tensor scale_;           // float32 scalar on the device
  at::Tensor growth_tracker_;  // int32 scalar on the device: steps with finite gradients since the scale changed
};

// Returns ‖g‖₂ over all gradients together (at least one), a scalar on their device: float32 for float16 gradients,
// else of their type.
at::Tensor GradientNorm(const std::vector<at::Tensor>& gradients);

// Returns the factor that clips gradients of this norm, min(1, max_norm / (norm + 1e-6)), a scalar on the device of
// `norm`. It has the same bits as that of torch.nn.utils.clip_grad_norm_, where torch computes the quotient as a
// product with the reciprocal.
at::Tensor ClipFactor(const at::Tensor& norm, double max_norm);

class ParameterUpdate {
 public:
  // If `clip_norm` is 0, gradients are not clipped. Without a scaler the loss is not scaled. `half_weights` are copies
  // of the optimizer's parameters, and of others.
  ParameterUpdate(std::unique_ptr<Optimizer> optimizer, std::optional<LossScaler> scaler, double clip_norm,
                  at::Device device, models::HalfWeights half_weights = {});

  // Returns the loss to call backward() on.
  at::Tensor Scale(const at::Tensor& loss) const { return scaler_ ? scaler_->Scale(loss) : loss; }

  // `gradients` are those of all the optimizer's parameters that have one. They are unscaled and clipped in place,
  // unless the optimizer takes_factor(). They are also multiplied by `factor`, a float32 scalar on their device; if it
  // is 0, the step had nothing to learn and is skipped. It is also skipped if `skip`, such a scalar, is 1.
  void Apply(std::vector<at::Tensor> gradients, const Rate& learning_rate,
             const std::optional<at::Tensor>& factor = std::nullopt,
             const std::optional<at::Tensor>& skip = std::nullopt);

  // To be called when anything but Apply has changed weights: writes their copies.
  void WeightsChanged() { half_weights_.Write(); }

  // A float32 scalar on the device: 1 if the last Apply was skipped, else 0. It is always the same tensor.
  const at::Tensor& skipped() const { return skipped_; }
  // The same: 1 if the gradients of the last Apply were not finite, which is one of the reasons to skip it.
  const at::Tensor& not_finite() const { return not_finite_; }
  // See gradient_norm. A float32 scalar on the device, always the same tensor.
  const at::Tensor& gradient_norm_on_device() const { return gradient_norm_; }

  // These four wait for the device.
  // The number of steps since the last good one whose gradients were not finite. Steps that were skipped for another
  // reason are neither.
  int64_t skipped_in_a_row() const { return skipped_in_a_row_.item<int64_t>(); }
  // The norm of the gradients at the last Apply: unscaled, multiplied by `factor`, and not clipped.
  double gradient_norm() const { return gradient_norm_.item<double>(); }
  std::optional<double> loss_scale() const;  // empty without a scaler
  double L2Term() const { return optimizer_->L2Term(); }

  // Returns the state for checkpoints: the optimizer's, the scaler's, and `skipped_in_a_row`; shared, not copied.
  std::vector<NamedTensor> State() const;

 private:
  // For an optimizer that multiplies the gradients itself: computes their norm, and gives the optimizer the factor.
  // Returns the same as Unscale.
  at::Tensor LeaveToOptimizer(const std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& factor);
  // Unscales and clips the gradients, and computes their norm. Returns a float32 scalar on the device: 1 if they are
  // not finite, else 0.
  at::Tensor Unscale(std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& factor);

  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LossScaler> scaler_;
  double clip_norm_;
  models::HalfWeights half_weights_;
  at::Tensor gradient_norm_, skipped_, not_finite_;
  at::Tensor skipped_in_a_row_;  // int64 scalar on the device
};

}  // namespace dtrain::optim
