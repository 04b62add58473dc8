// RMSprop as TensorFlow has it, which EfficientNet's and MobileNet's recipes mean: timm.optim.RMSpropTF.
#pragma once

#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

struct RmspropTfOptions {
  double alpha = 0.9;
  double epsilon = 1e-10;
  double momentum = 0.9;
};

// g += wd·w; s += (1 − α)(g² − s), beginning with 1; v = m·v + lr·g/√(s + ε); w −= v. PyTorch's own has ε outside of
// the root, s beginning with 0, and the learning rate outside of v. State: `square_avg.<parameter>`, and `<parameter>`,
// its momentum (none where momentum is 0).
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
