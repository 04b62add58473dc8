// LARS: You, Gitman and Ginsburg 2017 (arXiv:1708.03888), as timm.optim.Lars has it.
#pragma once

#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

struct LarsOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double trust_coefficient = 0.001;
  double epsilon = 1e-8;
};

// For each parameter of a group that is adapted, r = trust·‖w‖ / (‖g‖ + wd·‖w‖ + ε), 1 where ‖w‖ or ‖g‖ is 0; the
// others have r = 1 and, as a rule, no decay. g = r·(g + wd·w), and with that the step of SGD.
// State: `<parameter>`, its momentum (none where momentum is 0).
class Lars : public Optimizer {
 public:
  Lars(std::vector<ParameterGroup> groups, const LarsOptions& options);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  // What is left of a group's gradients for SGD to do.
  std::vector<at::Tensor> Adapted(const ParameterGroup& group) const;

  LarsOptions options_;
  std::vector<std::vector<at::Tensor>> momentum_;  // by group
};

}  // namespace dtrain::optim
