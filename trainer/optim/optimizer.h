// Updates parameters from gradients with ATen's fused kernels, one pass over the memory, or with its kernels for lists
// of tensors: the same numbers as torch.optim's and timm.optim's.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace dtrain::optim {

using NamedTensor = std::pair<std::string, at::Tensor>;

// A number, or a float scalar on the parameters' device: what a recorded step reads anew each time it is done. float32
// may round it, so that a step with the one is not bit for bit a step with the other.
using Rate = std::variant<double, at::Tensor>;

// Parameters that decay and learn alike, side by side, as the fused kernels take them.
struct ParameterGroup {
  double weight_decay;
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  bool adapted = true;   // LARS and LAMB scale the step of each parameter by its norm
  double lr_factor = 1;  // its share of the learning rate

  // Of the learning rate that the optimizer is given.
  Rate OwnRate(const Rate& learning_rate) const;

  // Those that are defined.
  std::vector<at::Tensor> Gradients() const;
  // Of tensors in the order of the parameters, those whose parameter has a gradient.
  std::vector<at::Tensor> WithGradient(const std::vector<at::Tensor>& tensors) const;
};

// One group, or two where parameters of one dimension (biases, BatchNorm's γ and β) do not decay and are not adapted.
std::vector<ParameterGroup> GroupByDecay(const std::vector<NamedTensor>& parameters, double weight_decay,
                                         bool decay_norm_and_bias);

// Each group becomes up to two: what is not in the module `classifier` learns at `factor` times the rate.
std::vector<ParameterGroup> SlowBackbone(std::vector<ParameterGroup> groups, double factor,
                                         const std::string& classifier);

class Optimizer {
 public:
  // Keeps references to the groups' parameters. Those that have no gradient are passed by at a Step().
  explicit Optimizer(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {}
  virtual ~Optimizer() = default;

  // `found_inf`: a float scalar on the parameters' device; where it is 1, neither parameters nor state change. The host
  // does not wait for it.
  virtual void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) = 0;

  // Whether the gradients are of a type that cannot hold them unscaled, so that Step multiplies them on the way, by
  // what MultiplyGradientsBy was given last: a float scalar on their device.
  virtual bool takes_factor() const { return false; }
  void MultiplyGradientsBy(const at::Tensor& factor) { gradient_factor_ = factor; }

  // The state's tensors by name; shared, not copied: all that it keeps beside the parameters.
  virtual std::vector<NamedTensor> State() const = 0;

  // ½·wd·‖w‖² over the parameters that decay: the L2 term of the loss. Waits for the device.
  double L2Term() const;

 protected:
  // Of the parameters: where its state is to be.
  at::Device device() const;
  // A tensor like each parameter, by group; none where they are not wanted.
  std::vector<std::vector<at::Tensor>> Zeros(bool wanted = true) const;
  // Such tensors, each with its parameter's name behind `prefix`.
  std::vector<NamedTensor> Named(const std::string& prefix, const std::vector<std::vector<at::Tensor>>& tensors) const;

  std::vector<ParameterGroup> groups_;
  std::optional<at::Tensor> gradient_factor_;
};

struct SgdOptions {
  double momentum = 0.9;
  bool nesterov = false;
};

// Stochastic gradient descent as torch.optim.SGD has it: g += wd·w; v = m·v + g; w −= lr·(nesterov ? g + m·v : v).
// State: `<parameter>`, its momentum (none where momentum is 0).
class Sgd : public Optimizer {
 public:
  Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  SgdOptions options_;
  std::vector<std::vector<at::Tensor>> momentum_;  // by group
};

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool decoupled_weight_decay = false;  // AdamW (Loshchilov and Hutter 2017) rather than Adam with L2
};

// One step of the fused kernel on tensors side by side; `steps` count this one, too.
void FusedAdam(const AdamOptions& options, at::TensorList parameters, at::TensorList gradients, at::TensorList average,
               at::TensorList average_of_squares, at::TensorList steps, const Rate& learning_rate, double weight_decay,
               const std::optional<at::Tensor>& found_inf);

// Adam (Kingma and Ba 2014, arXiv:1412.6980) as torch.optim.Adam and AdamW have it.
// State: `exp_avg.<parameter>`, `exp_avg_sq.<parameter>`, and `step`, which skipped steps do not advance.
class Adam : public Optimizer {
 public:
  Adam(std::vector<ParameterGroup> groups, const AdamOptions& options);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  AdamOptions options_;
  std::vector<std::vector<at::Tensor>> average_, average_of_squares_;  // by group
  at::Tensor step_;                                                    // float32 scalar on the parameters' device
};

}  // namespace dtrain::optim
