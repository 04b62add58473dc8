// LARS: You, Gitman and Ginsburg 2017 (arXiv:1708.03888), as in timm.optim.Lars, and LARC, as with its trust_clip.
#pragma once

#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

struct LarsOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double trust_coefficient = 0.001;
  double epsilon = 1e-8;
  bool clip = false;  // LARC
};

// g = r·(g + wd·w), then a step of SGD with this g. In an adapted group r = trust·‖w‖ / (‖g‖ + wd·‖w‖ + ε) for each
// parameter, or 1 if ‖w‖ or ‖g‖ is 0; with `clip`, r = min(1, r/lr), so that no parameter's own rate r exceeds lr. In
// other groups r = 1, and usually wd = 0. State: `<parameter>` is its momentum; no state if momentum is 0.
class Lars : public Optimizer {
 public:
  Lars(std::vector<ParameterGroup> groups, const LarsOptions& options);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  // Returns r·(g + wd·w) for the parameters of `group` that have a gradient.
  std::vector<at::Tensor> Adapted(const ParameterGroup& group, const Rate& rate) const;

  LarsOptions options_;
  std::vector<std::vector<at::Tensor>> momentum_;  // by group
};

}  // namespace dtrain::optim
