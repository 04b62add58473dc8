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

  std::vector<at::Tensor> Gradients() const;
  // `tensors` has one tensor per parameter; returns those whose parameter has a gradient.
  std::vector<at::Tensor> WithGradient(const std::vector<at::Tensor>& tensors) const;
};

// Tells by its name whether a matrix is treated as biases are. Null: none is.
using IsNeverDecayed = bool (*)(std::string_view name);

// Returns one group, or, unless `decay_norm_and_bias`, a second one for parameters of one dimension (biases,
// BatchNorm's γ and β) and those that are never decayed, which neither decay nor are adapted. Unless `decay_bias`,
// those whose name ends in "bias" are in the second one anyway.
std::vector<ParameterGroup> GroupByDecay(const std::vector<NamedTensor>& parameters, double weight_decay,
                                         bool decay_norm_and_bias, IsNeverDecayed is_never_decayed = nullptr,
                                         bool decay_bias = true);

// The factor on the learning rate of a parameter, given its name.
using RateFactor = std::function<double(const std::string& name)>;

// What the trainer tells an optimizer of its parameters.
struct ParameterFacts {
  RateFactor rate_factor = nullptr;  // null: 1 for all
  IsNeverDecayed is_never_decayed = nullptr;
};

// Splits each group into groups of one factor, in ascending order.
std::vector<ParameterGroup> SplitByRate(const std::vector<ParameterGroup>& groups, const RateFactor& factor_of);

// The kernel of a device, which the trainer passes in. It works on the current device and stream, does not wait, and
// throws if it cannot be started. `copies` is the type of the copies, kFloat if there are none.
using AdamKernel = void (*)(const kernels::AdamArguments& arguments, models::kernels::Element copies);

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

  // From now on, steps of an Adam run this kernel, which must be of the parameters' device and writes their copies. The
  // parameters, which must be float32, lie densely in memory. Null, and others: no effect.
  virtual void UseKernel(AdamKernel /*kernel*/, const models::HalfWeights& /*half_weights*/) {}

  // Returns all tensors that the optimizer keeps besides the parameters, by name; shared, not copied.
  virtual std::vector<NamedTensor> State() const = 0;

  // Returns ½·wd·‖w‖² over the parameters that decay, the L2 term of the loss. Waits for the device.
  double L2Term() const;

 protected:
  // The parameters' device, which is also that of the state.
  at::Device device() const;
  // Returns a float32 scalar there, 0; and counts a step in it, unless that is skipped.
  at::Tensor StepCount() const;
  static void CountStep(at::Tensor& count, const std::optional<at::Tensor>& found_inf);
  // Returns a tensor of zeros like each parameter, by group; no tensors if they are not `wanted`.
  std::vector<std::vector<at::Tensor>> Zeros(bool wanted = true) const;
  // Returns such tensors under their parameters' names, each after `prefix`.
  std::vector<NamedTensor> Named(const std::string& prefix, const std::vector<std::vector<at::Tensor>>& tensors) const;

  std::vector<ParameterGroup> groups_;
  std::optional<at::Tensor> gradient_factor_;
};

// What Adam and its relatives keep. State: `exp_avg.<parameter>`, `exp_avg_sq.<parameter>`, and `step` (skipped steps
// do not count).
class MomentOptimizer : public Optimizer {
 public:
  explicit MomentOptimizer(std::vector<ParameterGroup> groups);
  std::vector<NamedTensor> State() const override;

 protected:
  std::vector<std::vector<at::Tensor>> average_, average_of_squares_;  // by group
  at::Tensor step_;                                                    // as StepCount
};

// Returns the optimizer of --optimizer and its companions (the classes are in their own files). For parameters of half
// precision adam, adamw and fairseq_adam are memory-efficient. The parameters must be on their final device. Throws
// UsageError for an unknown name.
std::unique_ptr<Optimizer> MakeOptimizer(const config::OptimizerConfig& config,
                                         const std::vector<NamedTensor>& parameters, const ParameterFacts& facts = {});

// Returns the bytes of state that this optimizer would keep for such parameters, without allocating them.
int64_t OptimizerStateBytes(const config::OptimizerConfig& config, const std::vector<NamedTensor>& parameters,
                            const ParameterFacts& facts = {});

// The following are operations on lists of tensors, of which optimizers without a fused kernel of ATen are made.

// tensors[i] −= rate · differences[i]. If `found_inf` (a float32 scalar on their device) is 1, the tensors do not
// change, even if `differences` are not finite. The host does not wait for it.
void SubtractUnless(const std::optional<at::Tensor>& found_inf, at::TensorList tensors, at::TensorList differences,
                    const Rate& rate);

// A step of torch.optim.SGD with these gradients; `momentum` are its tensors of momentum, none if it has none. The same
// holds of `found_inf`.
struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};
void FusedSgd(at::TensorList tensors, at::TensorList gradients, at::TensorList momentum, const SgdOptions& options,
              const Rate& rate, const std::optional<at::Tensor>& found_inf);

// Returns a vector on the tensors' device with ‖t‖₂ of each tensor.
at::Tensor NormOfEach(const std::vector<at::Tensor>& tensors);

// Returns the trust ratios of LARS and LAMB, by which the step of each parameter is scaled: `ratios`, but 1 where a
// norm of the weights or of the step is 0, because then the ratio is meaningless.
at::Tensor TrustOrOne(const at::Tensor& ratios, const at::Tensor& weight_norms, const at::Tensor& step_norms);

}  // namespace dtrain::optim
