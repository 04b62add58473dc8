// Finds what a training step must not ask of torch, because the host would wait for a GPU or the GPU would refuse it,
// although the test computes on the CPU. Most operators are made of others; those that have a kernel of their own must
// be in the table below, so that somebody has looked at each of them. What an operator of the table calls on the CPU is
// not looked at.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/pipeline/batch.h"
#include "tests/words.h"

namespace dtrain {

struct AllowedOperators {
  std::string why, names;
};

// An operator waits if its result decides a shape (nonzero, masked_select, unique, repeat_interleave, an index that is
// a mask) or becomes a number on the host (_local_scalar_dense, which item and is_nonzero call; equal). A GPU refuses,
// with --deterministic, what torch.use_deterministic_algorithms lists as raising an error; of that, only the gradient
// of max pooling is here (models::Family::pools_maxima).
inline const std::vector<AllowedOperators>& OperatorsOfSteps() {
  static const std::vector<AllowedOperators> table = {
      {"the host knows the shape, and nothing is computed",
       "_reshape_alias as_strided empty empty_strided resize_ view"},
      {"writes what does not depend on a tensor", "arange bernoulli_ eye fill_ zero_"},
      {"computes each element from those at the same place",
       "abs add add_ clamp_max clamp_min cos div div_ eq exp ge gt isneginf le lerp_ logical_and logical_not "
       "logical_or "
       "lt masked_fill_ maximum mul mul_ ne neg pow reciprocal rsqrt sin sqrt sqrt_ sub sub_ where"},
      {"activations and their gradients",
       "gelu gelu_backward log_sigmoid_forward relu_ sigmoid sigmoid_backward silu silu_backward tanh tanh_backward "
       "threshold_backward"},
      {"reduces dimensions that the host knows",
       "_log_softmax_backward_data log_softmax _softmax _softmax_backward_data all argmax linalg_vector_norm "
       "max_pool2d_with_indices max_pool2d_with_indices_backward mean mse_loss mse_loss_backward native_batch_norm "
       "native_batch_norm_backward native_layer_norm native_layer_norm_backward nll_loss_backward nll_loss_forward sum "
       "sort topk var_mean"},
      {"the places are numbers, as many as the shape of their tensor says",
       "cat embedding_dense_backward index_add_ index_copy_ index_fill_ index_select roll scatter_"},
      {"attention on the CPU; a GPU has others, which the tests on a GPU look at",
       "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward"},
      {"products", "addmm bmm mm"},
      {"resizes images to a size that the host knows, without a gradient", "_upsample_bicubic2d_aa"},
      {"convolutions in half precision on a CPU without AVX-512; a GPU has others",
       "_slow_conv2d_backward _slow_conv2d_forward"},
      {"the rate, the scale and whether to skip the step are tensors of the device",
       "_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ _fused_adam_ _fused_adamw_ _fused_sgd_"},
  };
  return table;
}

// Looks at what its thread calls while it lives.
class StepOperators {
 public:
  // `host` is the batch of the step before data::CopyToDevice, which copies all that a device computes with.
  explicit StepOperators(const data::Batch& host = {}) {
    for (const auto& [name, tensor] : host.tensors) host_[tensor.storage().unsafeGetStorageImpl()] = name;
    for (const auto& [name, tensor] : host.on_host) host_[tensor.storage().unsafeGetStorageImpl()] = name;
    OfThread() = this;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&Begin, &End).scopes({at::RecordScope::FUNCTION}).needsInputs(true));
  }
  ~StepOperators() { at::removeCallback(handle_); }
  StepOperators(const StepOperators&) = delete;
  StepOperators& operator=(const StepOperators&) = delete;

  // Returns a sentence for each thing that was called and must not be.
  const std::set<std::string>& forbidden() const { return forbidden_; }

  bool PoolsMaxima() const { return pools_maxima_; }

 private:
  static StepOperators*& OfThread() {
    thread_local StepOperators* of_thread = nullptr;
    return of_thread;
  }
  static std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
    OfThread()->Enter(function);
    return nullptr;
  }
  static void End(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
    if (function.operator_name()) OfThread()->depth_in_kernel_ -= OfThread()->depth_in_kernel_ > 0;
  }

  void Enter(const at::RecordFunction& function) {
    const auto name = function.operator_name();
    if (!name) return;  // a mark of autograd's, for profilers
    if (depth_in_kernel_ > 0) {
      ++depth_in_kernel_;
      return;
    }
    pools_maxima_ |= name->name == "aten::max_pool2d_with_indices_backward";
    const bool is_allowed = IsAllowed(name->name);
    if (is_allowed || c10::Dispatcher::singleton().findOp(*name)->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
      depth_in_kernel_ = 1;
      if (!is_allowed) forbidden_.insert(name->name + " is not in tests/step_operators.h");
    }
    RequireDevice(name->name, function.operator_schema()->arguments(), function.inputs());
  }

  static bool IsAllowed(const std::string& name) {
    if (name.starts_with("c10d::")) return true;  // a collective of NCCL waits in its stream
    constexpr std::string_view kAten = "aten::";
    const std::string of_aten = name.starts_with(kAten) ? name.substr(kAten.size()) : "";
    static const std::set<std::string> allowed = [] {
      std::set<std::string> all;
      for (const AllowedOperators& row : OperatorsOfSteps()) {
        for (const std::string& one : Words(row.names)) all.insert(one);
      }
      return all;
    }();
    return allowed.contains(of_aten);
  }

  void RequireDevice(const std::string& name, const std::vector<c10::Argument>& arguments,
                     at::ArrayRef<const c10::IValue> inputs) {
    bool says_device = false, says_layout = false, changes_type = false, waits = false, takes_device = false,
         has_tensor = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& argument = arguments[i].name();
      takes_device |= argument == "device";
      says_device |= argument == "device" && !inputs[i].isNone();
      says_layout |= argument == "layout" && !inputs[i].isNone();
      changes_type |= argument == "dtype" && inputs[i].isInt() && inputs[0].isTensor() &&
                      inputs[i].toScalarType() != inputs[0].toTensor().scalar_type();
      waits |= argument == "non_blocking" && !inputs[i].toBool();
      inputs[i].visit([&](const c10::IValue& part) {
        if (part.isTensor() && part.toTensor().defined()) {
          has_tensor = true;
          RequireNotOnHost(name, part.toTensor());
        }
        return false;  // visits the tensors of a list, too
      });
    }
    // Tensor::toType and the gradient of a change of type say all options of the tensor.
    if (says_device && waits && !(says_layout && changes_type))
      forbidden_.insert(name + " copies to a device without non_blocking");
    if (takes_device && !says_device && !has_tensor) forbidden_.insert(name + " makes a tensor on the host");
  }

  void RequireNotOnHost(const std::string& name, const at::Tensor& tensor) {
    if (!tensor.has_storage()) return;
    const auto found = host_.find(tensor.storage().unsafeGetStorageImpl());
    if (found != host_.end()) forbidden_.insert(name + " takes " + found->second + ", which stays on the host");
  }

  std::map<const void*, std::string> host_;  // names by storage
  int64_t depth_in_kernel_ = 0;              // 0: outside of all kernels
  std::set<std::string> forbidden_;
  bool pools_maxima_ = false;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace dtrain
