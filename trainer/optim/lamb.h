// LAMB: You et al. 2019 (arXiv:1904.00962), as in timm.optim.Lamb but without its clipping, which --clip_norm does.
#pragma once

#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

struct LambOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
};

// u = Adam's direction + wd·w; in an adapted group, each parameter's u is scaled by ‖w‖ / ‖u‖, unless one of them is 0;
// w −= lr·u. The state has Adam's names.
class Lamb : public Optimizer {
 public:
  Lamb(std::vector<ParameterGroup> groups, const LambOptions& options);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  void StepGroup(size_t i, const Rate& learning_rate, const std::optional<at::Tensor>& found_inf);
  // Returns 1 − beta^step, a float32 scalar on the device.
  at::Tensor BiasCorrection(double beta) const;

  LambOptions options_;
  std::vector<std::vector<at::Tensor>> average_, average_of_squares_;  // by group
  at::Tensor step_;                                                    // float32 scalar on the parameters' device
};

}  // namespace dtrain::optim
