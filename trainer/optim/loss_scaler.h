// Keeps small fp16 gradients from vanishing: the loss is multiplied before the backward pass, the gradients are divided
// after it, and a step whose gradients are not finite is skipped. Nothing waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

// The defaults are those of torch.amp.GradScaler. With `dynamic` the scale is multiplied by `growth` after
// `growth_interval` good steps in a row, and by `backoff` after a bad one; otherwise it stays.
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

  // What gradients are to be multiplied by, a float scalar on the device.
  at::Tensor Inverse() const;

  // Divides the gradients by the scale, multiplies them by `factor` (a float scalar on the device), and finds out
  // whether any of them is infinite or NaN, in one pass. Returns a float scalar on the device: 1 where one is, else 0.
  at::Tensor Unscale(std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& factor = std::nullopt);

  // After the optimizer's step, with what Unscale returned.
  void Update(const at::Tensor& found_inf);

  // Waits for the device.
  double scale() const { return scale_.item<double>(); }

  // For checkpoints: `scaler.scale` and `scaler.growth_tracker`; shared, not copied.
  std::vector<NamedTensor> State() const;

 private:
  LossScalerOptions options_;
  at::Tensor scale_;           // float32 scalar on the device
  at::Tensor growth_tracker_;  // int32: good steps since the scale changed
};

}  // namespace dtrain::optim
