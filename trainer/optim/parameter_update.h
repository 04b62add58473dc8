// From gradients to new weights. A step whose gradients are not finite is skipped: it changes neither weights nor the
// optimizer's state, on all ranks alike, since all have the same reduced gradients. The decision is made on the device,
// and the host does not wait for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "trainer/optim/loss_scaler.h"
#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

class ParameterUpdate {
 public:
  // `clip_norm` 0: no clipping. Without a scaler the loss stays as it is.
  ParameterUpdate(std::unique_ptr<Optimizer> optimizer, std::optional<LossScaler> scaler, double clip_norm,
                  at::Device device);

  // What backward is to be called on.
  at::Tensor Scale(const at::Tensor& loss) const { return scaler_ ? scaler_->Scale(loss) : loss; }

  // `gradients` are all of the optimizer's parameters that have one; they are unscaled and clipped in place. `factor`,
  // a float scalar on their device, is what they are still to be multiplied by; where it is 0 the step is skipped.
  void Apply(std::vector<at::Tensor> gradients, const Rate& learning_rate,
             const std::optional<at::Tensor>& factor = std::nullopt);

  // Of the last Apply: float scalar on the device, 1 where it was skipped, else 0; always the same tensor.
  const at::Tensor& skipped() const { return skipped_; }
  // Of the last Apply, float scalar on the device: see gradient_norm.
  const at::Tensor& gradient_norm_on_device() const { return gradient_norm_; }

  // These wait for the device.
  int64_t skipped_in_a_row() const { return skipped_in_a_row_.item<int64_t>(); }
  // Of the last Apply: as the optimizer would see the gradients without clipping.
  double gradient_norm() const { return gradient_norm_.item<double>(); }
  std::optional<double> loss_scale() const;
  double L2Term() const { return optimizer_->L2Term(); }

  // For checkpoints: the optimizer's, the scaler's, and `skipped_in_a_row`; shared, not copied.
  std::vector<NamedTensor> State() const;

 private:
  // For an optimizer that multiplies them itself: tells it by what. Returns what Unscale does.
  at::Tensor LeaveToOptimizer(const std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& factor);
  // Leaves the gradients as the optimizer is to see them, and their norm. Returns 1 where they are not finite, else 0.
  at::Tensor Unscale(std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& factor);

  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LossScaler> scaler_;
  double clip_norm_;
  at::Tensor gradient_norm_, skipped_;
  at::Tensor skipped_in_a_row_;  // int64 scalar on the device
};

}  // namespace dtrain::optim
