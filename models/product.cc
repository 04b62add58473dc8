// oneDNN takes a transposed second factor as it is, but copies a transposed first one.
#include "models/product.h"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <string_view>
#include <vector>

namespace dtrain::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x, weight, bias, and what is done to the product: the operation's name, numbers and algorithm.
using Numbers = c10::List<std::optional<at::Scalar>>;
using LinearSignature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                   std::string_view, Numbers, std::optional<std::string_view>);
using OneDnnLinear = c10::TypedOperatorHandle<LinearSignature>;

// Below this, finding oneDNN's kernel for the sizes costs more than MKL's product.
constexpr int64_t kLeastMultiplications = int64_t{1} << 21;

bool MklLacksKernels() {
#ifdef __x86_64__
  static const bool lacks = __builtin_cpu_is("amd") && at::get_cpu_capability() == "AVX512";
  return lacks;
#else
  return false;
#endif
}

const std::optional<OneDnnLinear>& FindOneDnnLinear() {
  static const auto found = []() -> std::optional<OneDnnLinear> {
    const auto schema = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!schema || !MklLacksKernels()) return std::nullopt;
    return schema->typed<LinearSignature>();
  }();
  return found;
}

// x · weightᵀ + bias for matrices.
at::Tensor Multiply(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {}) {
  return FindOneDnnLinear()->call(x, weight, bias, "none", Numbers(), "");
}

struct DenseProduct : torch::autograd::Function<DenseProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    return Multiply(x, weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = gradients[0].contiguous();
    variable_list results(3);
    if (context->needs_input_grad(0)) results[0] = Multiply(dy, weight.t());
    if (context->needs_input_grad(1)) {
      // The first factor is copied, and a transposed gradient of the weight is, too.
      const bool transposes = dy.numel() > x.numel() + weight.numel();
      results[1] = transposes ? Multiply(x.t(), dy.t()).t() : Multiply(dy.t(), x.t());
    }
    if (context->saved_data["has_bias"].toBool()) results[2] = dy.sum(0);
    return results;
  }
};

}  // namespace

bool UsesOneDnnProduct(const at::Tensor& x, const at::Tensor& weight) {
  const auto is_float = [](const at::Tensor& y) { return y.is_cpu() && y.scalar_type() == at::kFloat; };
  return is_float(x) && is_float(weight) && !at::autocast::is_autocast_enabled(at::kCPU) &&
         x.numel() * weight.size(0) >= kLeastMultiplications && FindOneDnnLinear().has_value();
}

at::Tensor Product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!UsesOneDnnProduct(x, weight)) return at::linear(x, weight, bias);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  const auto has_bias = bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
  return DenseProduct::apply(x.reshape({-1, weight.size(1)}), weight, has_bias).view(sizes);
}

}  // namespace dtrain::models
