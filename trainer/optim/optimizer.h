// Optimizers, which update parameters from their gradients. They use ATen's fused kernels, which go through memory
// once, or its kernels for lists of tensors, and compute the same numbers as torch.optim and timm.optim.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/half_weights.h"
#include "trainer/config/config.h"
#include "trainer/optim/kernels/adam.h"

namespace dtrain::optim {

using NamedTensor = std::pair<std::string, at::Tensor>;

// A learning rate: a number, or a float32 scalar on the parameters' device, which a recorded step (DeviceGraph) reads
// again at each replay. float32 may round the number, so the two do not give the same bits.
using Rate = std::variant<double, at::Tensor>;

// Parameters with the same weight decay and learning rate.
struct ParameterGroup {
  double weight_decay;
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  bool adapted = true;   // whether LARS and LAMB scale the step of each parameter by its norm
  double lr_factor = 1;  // multiplies the learning rate of the optimizer

  // Returns this group's learning rate, given that of the optimizer.
  Rate OwnRate(const Rate& learning_rate) const;

  // Returns the gradients of the parameters that have one.
  std::vector<at::Tensor> Gradients() const;
  // `tensors` has one tensor per parameter; returns those whose parameter has a gradient.
  std::vector<at::Tensor> WithGradient(const std::vector<at::Tensor>& tensors) const;
};

// Tells by its name whether a matrix is treated as biases are. Null: none is.
using IsNeverDecayed = bool (*)(std::string_view name);

// Returns one group, or, unless `decay_norm_and_bias`, a second one for parameters of one dimension (biases,
// BatchNorm's γ and β) and those that are never decayed, which neither decay nor are adapted.
std::vector<ParameterGroup> GroupByDecay(const std::vector<NamedTensor>& parameters, double weight_decay,
                                         bool decay_norm_and_bias, IsNeverDecayed is_never_decayed = nullptr);

// The factor on the learning rate of a parameter, given its name.
using RateFactor = std::function<double(const std::string& name)>;

// Splits each group into groups of one factor, in ascending order.
std::vector<ParameterGroup> SplitByRate(const std::vector<ParameterGroup>& groups, const RateFactor& factor_of);

class Optimizer {
 public:
  // The groups' tensors are shared with the model, not copied. Step skips parameters that have no gradient.
  explicit Optimizer(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {}
  virtual ~Optimizer() = default;

  // `found_inf` is a float32 scalar on the parameters' device; if it is 1, neither the parameters nor the state change.
  // The host does not wait for it.
  virtual void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) = 0;

  // Whether Step multiplies the gradients by the last factor given to MultiplyGradientsBy, a float32 scalar on their
  // device. It does if their type is too small to hold them unscaled, or if that saves a pass through memory.
  virtual bool takes_factor() const { return false; }
  void MultiplyGradientsBy(const at::Tensor& factor) { gradient_factor_ = factor; }

  // Whether Step also writes the copies of the weights that it changes. Otherwise HalfWeights::Write does.
  virtual bool writes_copies() const { return false; }

  // Returns all tensors that the optimizer keeps besides the parameters, by name; shared, not copied.
  virtual std::vector<NamedTensor> State() const = 0;

  // Returns ½·wd·‖w‖² over the parameters that decay, the L2 term of the loss. Waits for the device.
  double L2Term() const;

 protected:
  // The parameters' device, which is also that of the state.
  at::Device device() const;
  // Returns a tensor of zeros like each parameter, by group; no tensors if they are not `wanted`.
  std::vector<std::vector<at::Tensor>> Zeros(bool wanted = true) const;
  // Returns such tensors under their parameters' names, each after `prefix`.
  std::vector<NamedTensor> Named(const std::string& prefix, const std::vector<std::vector<at::Tensor>>& tensors) const;

  std::vector<ParameterGroup> groups_;
  std::optional<at::Tensor> gradient_factor_;
};

// Stochastic gradient descent as in torch.optim.SGD: g += wd·w; v = m·v + g; w −= lr·(nesterov ? g + m·v : v).
// State: `<parameter>` is its momentum; no state if momentum is 0.
class Sgd : public Optimizer {
 public:
  Sgd(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  const config::OptimizerConfig config_;
  std::vector<std::vector<at::Tensor>> momentum_;  // by group
};

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool decoupled_weight_decay = false;     // AdamW (Loshchilov and Hutter 2017) rather than Adam with L2
  bool epsilon_before_correction = false;  // ε is added to √v itself (fairseq), not to its bias-corrected value
};

// The kernel of a device, which the trainer passes in. It works on the current device and stream, does not wait, and
// throws if it cannot be started. `copies` is the type of the copies, kFloat if there are none.
using AdamKernel = void (*)(const kernels::AdamArguments& arguments, models::kernels::Element copies);

// A step of one group of parameters; the lists have the same length.
struct AdamStep {
  AdamOptions options;
  std::vector<at::Tensor> parameters, gradients, average, average_of_squares;
  at::Tensor count;  // float32 scalar: the steps done, this one included
  Rate rate;
  double weight_decay = 0;
  std::optional<at::Tensor> found_inf = {};
  AdamKernel kernel = nullptr;          // null: ATen's fused kernel, which knows neither of these:
  std::vector<at::Tensor> copies = {};  // undefined where there is none
  at::Tensor gradient_factor = {};      // float32 scalar, or undefined
};

void FusedAdam(AdamStep step);

// Adam (Kingma and Ba 2014, arXiv:1412.6980) as in torch.optim.Adam and AdamW; with both options, as in fairseq's
// `adam`: w −= lr·wd·w; then w −= lr·√(1 − β2ᵗ)/(1 − β1ᵗ) · m/(√v + ε).
// State: `exp_avg.<parameter>`, `exp_avg_sq.<parameter>`, and `step` (skipped steps do not count).
class Adam : public Optimizer {
 public:
  Adam(std::vector<ParameterGroup> groups, const AdamOptions& options);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

  // From now on, steps run this kernel, which must be of the parameters' device and writes their copies. The
  // parameters, which must be float32, lie densely in memory.
  void UseKernel(AdamKernel kernel, const models::HalfWeights& half_weights);
  bool writes_copies() const override { return kernel_ != nullptr; }
  bool takes_factor() const override { return kernel_ != nullptr; }

 private:
  AdamOptions options_;
  AdamKernel kernel_ = nullptr;
  std::vector<std::vector<at::Tensor>> copies_;                        // by group
  std::vector<std::vector<at::Tensor>> average_, average_of_squares_;  // by group
  at::Tensor step_;                                                    // float32 scalar on the parameters' device
};

// LARS: You, Gitman and Ginsburg 2017 (arXiv:1708.03888), as in timm.optim.Lars, and LARC, as with its trust_clip: g =
// r·(g + wd·w), then a step of SGD with this g. In an adapted group r = trust·‖w‖ / (‖g‖ + wd·‖w‖ + 1e-8) for each
// parameter, or 1 if ‖w‖ or ‖g‖ is 0; with --lars_clip (LARC), r = min(1, r/lr), so that no parameter's own rate r
// exceeds lr. In other groups r = 1, and usually wd = 0. State: `<parameter>` is its momentum; no state if momentum is
// 0.
class Lars : public Optimizer {
 public:
  Lars(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  // Returns r·(g + wd·w) for the parameters of `group` that have a gradient.
  std::vector<at::Tensor> Adapted(const ParameterGroup& group, const Rate& rate) const;

  const config::OptimizerConfig config_;
  std::vector<std::vector<at::Tensor>> momentum_;  // by group
};

// Adam with decoupled weight decay whose step is scaled in each parameter by a factor of its own: w −= lr·factor·(m/(1
// − β1ᵗ)/(√(v/(1 − β2ᵗ)) + ε) + wd·w). The state has Adam's names.
class ScaledAdam : public Optimizer {
 public:
  ScaledAdam(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 protected:
  // Of the parameters of a group that have a gradient.
  struct GroupStep {
    std::vector<at::Tensor> parameters, gradients, squares;  // `squares`: v of this step
    std::vector<at::Tensor> updates;                         // what the factors multiply
  };
  // Returns a factor for each parameter (scalars on the device).
  virtual std::vector<at::Tensor> Factors(const GroupStep& step) const = 0;
  virtual bool Scales(const ParameterGroup&) const { return true; }
  // Returns 1 − beta^step, a float32 scalar on the device.
  at::Tensor BiasCorrection(double beta) const;

  const config::OptimizerConfig config_;

 private:
  void StepGroup(size_t i, const Rate& learning_rate, const std::optional<at::Tensor>& found_inf);

  std::vector<std::vector<at::Tensor>> average_, average_of_squares_;  // by group
  at::Tensor step_;                                                    // float32 scalar on the parameters' device
};

// LAMB: You et al. 2019 (arXiv:1904.00962), as in timm.optim.Lamb but without its clipping, which --clip_norm does: in
// an adapted group, the factor is ‖w‖ / ‖u‖ of the weights and their update, unless one of them is 0.
class Lamb : public ScaledAdam {
 public:
  using ScaledAdam::ScaledAdam;

 private:
  std::vector<at::Tensor> Factors(const GroupStep& step) const override;
  bool Scales(const ParameterGroup& group) const override { return group.adapted; }
};

// StableAdamW: Wortsman et al. 2023 (arXiv:2304.13013), as in torch-optimi: the factor is 1 / max(1, RMS), with RMS² =
// mean(g² / max(v/(1 − β2ᵗ), ε²)), so that a gradient that exceeds its average makes no larger step.
class StableAdamW : public ScaledAdam {
 public:
  using ScaledAdam::ScaledAdam;

 private:
  std::vector<at::Tensor> Factors(const GroupStep& step) const override;
};

// RMSprop. As in TensorFlow, which recipes of image models from there assume, and in timm.optim.RMSpropTF: g += wd·w;
// s += (1 − α)(g² − s), with s = 1 at first; v = m·v + lr·g/√(s + ε); w −= v. With the name rmsprop as in
// torch.optim.RMSprop: s is 0 at first, v = m·v + g/(√s + ε), and w −= lr·v. State: `square_avg.<parameter>`, and
// `<parameter>`, its momentum, which is left out if momentum is 0.
class Rmsprop : public Optimizer {
 public:
  Rmsprop(std::vector<ParameterGroup> groups, const config::OptimizerConfig& config);
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  const config::OptimizerConfig config_;
  const bool is_tensorflows_;
  std::vector<std::vector<at::Tensor>> square_average_, momentum_;  // by group
};

// The following are operations on lists of tensors, of which optimizers without a fused kernel of ATen are made.

// tensors[i] −= rate · differences[i]. If `found_inf` (a float32 scalar on their device) is 1, the tensors do not
// change, even if `differences` are not finite. The host does not wait for it.
void SubtractUnless(const std::optional<at::Tensor>& found_inf, at::TensorList tensors, at::TensorList differences,
                    const Rate& rate);

// Returns a vector on the tensors' device with ‖t‖₂ of each tensor.
at::Tensor NormOfEach(const std::vector<at::Tensor>& tensors);

// Returns the trust ratios of LARS and LAMB, by which the step of each parameter is scaled: `ratios`, but 1 where a
// norm of the weights or of the step is 0, because then the ratio is meaningless.
at::Tensor TrustOrOne(const at::Tensor& ratios, const at::Tensor& weight_norms, const at::Tensor& step_norms);

}  // namespace dtrain::optim
