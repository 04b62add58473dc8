// RMSprop as in TensorFlow, which the recipes of EfficientNet and MobileNet assume, and in timm.optim.RMSpropTF.
#pragma once

#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

struct RmspropTfOptions {
  double alpha = 0.9;
  double epsilon = 1e-10;
  double momentum = 0.9;
};

// g += wd·w; s += (1 − α)(g² − s), with s = 1 at first; v = m·v + lr·g/√(s + ε); w −= v. PyTorch's RMSprop differs: its
// ε is outside of the root, its s is 0 at first, and its v does not contain the learning rate. State:
// `square_avg.<parameter>`, and `<parameter>`, its momentum, which is left out if momentum is 0.
class RmspropTf : public Optimizer {
 public:
  RmspropTf(std::vector<ParameterGroup> groups, const RmspropTfOptions& options);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  RmspropTfOptions options_;
  std::vector<std::vector<at::Tensor>> square_average_, momentum_;  // by group
};

}  // namespace dtrain::optim
