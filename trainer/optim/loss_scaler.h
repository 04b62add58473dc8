// Keeps small fp16 gradients from vanishing: the loss is multiplied by a scale before the backward pass, the gradients
// are divided by it afterwards, and a step whose gradients are not finite is skipped. The host does not wait for the
// device unless a method says so.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

  // Returns `scaler.scale` and `scaler.growth_tracker` for checkpoints; the tensors are shared, not copied.
  std::vector<NamedTensor> State() const;

 private:
  LossScalerOptions options_;
  at::Tensor scale_;           // float32 scalar on the device
  at::Tensor growth_tracker_;  // int32 scalar on the device: steps with finite gradients since the scale changed
};

}  // namespace dtrain::optim
