// oneDNN takes a transposed second factor as it is, but copies a transposed first one. The backward pass of a dropout
// draws the same numbers again.
#include "models/cpu_operations.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "models/vector_kernels.h"

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

at::Tensor Drop(const at::Tensor& x, double probability, int64_t seed) {
  constexpr int64_t kGrain = 1 << 15;
  constexpr double kNumbers = 4294967296.0;
  const at::Tensor from = x.contiguous();
  const at::Tensor y = at::empty_like(from);
  const auto threshold = static_cast<uint32_t>(std::lround(probability * (kNumbers - 1)));
  const auto scale = static_cast<float>(1 / (1 - probability));
  const auto* from_data = from.const_data_ptr<float>();
  auto* y_data = y.mutable_data_ptr<float>();
  at::parallel_for(0, from.numel(), kGrain, [&](int64_t first, int64_t last) {
    DropElements(from_data + first, y_data + first, first, last - first, threshold, scale, static_cast<uint64_t>(seed));
  });
  return y;
}

struct SeededDropout : torch::autograd::Function<SeededDropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double probability, int64_t seed) {
    context->saved_data["probability"] = probability;
    context->saved_data["seed"] = seed;
    return Drop(x, probability, seed);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Drop(gradients[0], context->saved_data["probability"].toDouble(), context->saved_data["seed"].toInt()),
            at::Tensor(), at::Tensor()};
  }
};

int64_t NextSeed() {
  auto* generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::scoped_lock lock(generator->mutex_);
  return static_cast<int64_t>(generator->random64());
}

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

at::Tensor Dropout(const at::Tensor& x, double probability, bool is_training) {
  if (!is_training || probability == 0) return x;
  const bool is_plain = x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 && probability < 1;
  return is_plain ? SeededDropout::apply(x, probability, NextSeed()) : at::dropout(x, probability, true);
}

}  // namespace dtrain::models
