// Updates parameters from gradients with ATen's fused kernels: one pass over the memory, and the same numbers as
// torch.optim's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace dtrain::optim {

using NamedTensor = std::pair<std::string, at::Tensor>;

struct SgdOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 1e-4;
  bool decay_norm_and_bias = true;  // false: parameters of one dimension (biases, BatchNorm's γ and β) do not decay
};

// Stochastic gradient descent as torch.optim.SGD has it: g += wd·w; v = m·v + g; w −= lr·(nesterov ? g + m·v : v).
class Sgd {
 public:
  // Keeps references to `parameters`, whose gradients must be defined at every Step().
  Sgd(const std::vector<NamedTensor>& parameters, const SgdOptions& options);

  void Step(double learning_rate);

  // ½·wd·‖w‖² over the parameters that decay: the L2 term of the loss. Waits for the device.
  double L2Term() const;

  // The momentum buffers by parameter name (empty without momentum); shared, not copied. LoadState copies into them and
  // throws std::invalid_argument when a name is missing or a shape differs.
  std::vector<NamedTensor> State() const;
  void LoadState(const std::vector<NamedTensor>& state);

 private:
  struct Group {
    double weight_decay;
    std::vector<std::string> names;
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> momentum;
  };
  SgdOptions options_;
  std::vector<Group> groups_;
};

}  // namespace dtrain::optim
