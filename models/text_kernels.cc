// The three products of attention are one, because one large product is faster than three, and because the gradient of
// x is then one product, too, instead of three and two additions. Its gradients come as three matrices, which are
// joined while the biases' gradients are added up.
#include "models/text_kernels.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>
#include <vector>

#include "models/element_of.h"

namespace dtrain::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A vector of parameters may have a half type. Differentiable.
at::Tensor ReadyVector(const at::Tensor& parameter) { return ForKernels(parameter.to(at::kFloat)); }

// Sums over a matrix's columns, with the memory of their parts, which a stream's later kernels may take once those
// launched before are done.
struct Sums {
  Sums(const at::Tensor& like, int64_t columns, int num_parts)
      : parts(num_parts),
        partial(at::empty({num_parts, columns}, like.options().dtype(at::kFloat))),
        sums(at::empty({columns}, partial.options())) {}

  kernels::ColumnSums memory() {
    return {partial.mutable_data_ptr<float>(), sums.mutable_data_ptr<float>(), sums.numel(), parts};
  }

  int parts;
  at::Tensor partial, sums;
};

struct NormSettings : torch::CustomClassHolder {
  NormSettings(const TextKernels& of_device, const ResidualNorm& norm, at::ScalarType of_result,
               const kernels::NormForm& of_kernels)
      : kernels(of_device),
        epsilon(norm.epsilon),
        type(of_result),
        form(of_kernels),
        drops(norm.dropout > 0),
        drops_x(drops && !form.normalises_first),
        dropout(norm.dropout) {}

  const TextKernels& kernels;
  double epsilon;
  at::ScalarType type;  // of the sum and y
  kernels::NormForm form;
  bool drops, drops_x;
  kernels::Dropout dropout;
};

// Returns where a tensor that may be missing begins, or null.
template <typename T>
const T* DataOf(const std::optional<at::Tensor>& tensor) {
  return tensor ? static_cast<const T*>(tensor->const_data_ptr()) : nullptr;
}

struct AddNorm : torch::autograd::Function<AddNorm> {
  // The two results share their memory, but not their gradients.
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& x_bias,
                               const std::optional<at::Tensor>& residual, const at::Tensor& weight,
                               const at::Tensor& bias, const c10::intrusive_ptr<NormSettings>& settings) {
    const int64_t rows = x.size(0), columns = x.size(1);
    const at::Tensor sum = at::empty_like(x, settings->type), y = at::empty_like(sum);
    const at::Tensor statistics = at::empty({2, rows}, weight.options());
    const at::Tensor mean = statistics[0], inverse_std = statistics[1];
    at::Tensor mask;
    if (settings->drops) mask = at::empty({x.numel() / kernels::kWidth}, x.options().dtype(at::kByte));
    settings->kernels.norm({.form = settings->form,
                            .x = x.const_data_ptr(),
                            .residual = DataOf<void>(residual),
                            .x_bias = DataOf<float>(x_bias),
                            .weight = weight.const_data_ptr<float>(),
                            .bias = bias.const_data_ptr<float>(),
                            .sum = sum.mutable_data_ptr(),
                            .y = y.mutable_data_ptr(),
                            .mask = mask.defined() ? mask.mutable_data_ptr<uint8_t>() : nullptr,
                            .mean = mean.mutable_data_ptr<float>(),
                            .inverse_std = inverse_std.mutable_data_ptr<float>(),
                            .rows = rows,
                            .columns = columns,
                            .epsilon = static_cast<float>(settings->epsilon),
                            .dropout = settings->dropout,
                            .random = settings->drops ? settings->kernels.random() : kernels::RandomState{}},
                           ElementOf(sum));
    context->save_for_backward({sum, weight, statistics, mask});
    context->saved_data["settings"] = c10::IValue::make_capsule(settings);
    context->saved_data["x_type"] = x.scalar_type();
    context->saved_data["adds"] = std::vector<bool>{x_bias.has_value(), residual.has_value()};
    context->set_materialize_grads(false);
    return {y, y.variable_data()};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto settings = c10::static_intrusive_pointer_cast<NormSettings>(context->saved_data["settings"].toCapsule());
    const auto saved = context->get_saved_variables();
    const at::Tensor &sum = saved[0], &weight = saved[1], &statistics = saved[2], &mask = saved[3];
    if (!gradients[0].defined()) std::swap(gradients[0], gradients[1]);
    if (!gradients[0].defined()) return variable_list(6);
    for (at::Tensor& dy : gradients) {
      if (dy.defined()) dy = ForKernels(dy.to(sum.scalar_type()));
    }
    const int64_t rows = sum.size(0), columns = sum.size(1);
    const at::Tensor dresidual = at::empty_like(sum, context->saved_data["x_type"].toScalarType());
    const at::Tensor dx = settings->drops_x ? at::empty_like(sum) : dresidual;
    Sums sums(sum, 3 * columns, settings->kernels.norm_parts(rows, columns));
    const auto* mean = statistics.const_data_ptr<float>();
    settings->kernels.norm_gradient({.form = settings->form,
                                     .dy = gradients[0].const_data_ptr(),
                                     .more_dy = gradients[1].defined() ? gradients[1].const_data_ptr() : nullptr,
                                     .sum = sum.const_data_ptr(),
                                     .mask = settings->drops ? mask.const_data_ptr<uint8_t>() : nullptr,
                                     .weight = weight.const_data_ptr<float>(),
                                     .mean = mean,
                                     .inverse_std = mean + rows,
                                     .dresidual = dresidual.mutable_data_ptr(),
                                     .dx = settings->drops_x ? dx.mutable_data_ptr() : nullptr,
                                     .rows = rows,
                                     .columns = columns,
                                     .scale = settings->dropout.scale,
                                     .sums = sums.memory()},
                                    ElementOf(sum));
    const auto of = sums.sums.split(columns);
    const std::vector<bool> adds = context->saved_data["adds"].to<std::vector<bool>>();
    return {dx, adds[0] ? of[2] : at::Tensor(), adds[1] ? dresidual : at::Tensor(), of[0], of[1], {}};
  }
};

struct KernelsHolder : torch::CustomClassHolder {
  explicit KernelsHolder(const TextKernels& of_device) : kernels(of_device) {}
  const TextKernels& kernels;
};

const TextKernels& KernelsOf(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<KernelsHolder>(context->saved_data["kernels"].toCapsule())->kernels;
}

struct Gelu : torch::autograd::Function<Gelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias,
                            const c10::intrusive_ptr<KernelsHolder>& holder) {
    at::Tensor y = at::empty_like(x);
    holder->kernels.gelu({.x = x.const_data_ptr(),
                          .bias = bias.const_data_ptr<float>(),
                          .y = y.mutable_data_ptr(),
                          .rows = x.size(0),
                          .columns = x.size(1)},
                         ElementOf(x));
    context->save_for_backward({x, bias});
    context->saved_data["kernels"] = c10::IValue::make_capsule(holder);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const TextKernels& kernels = KernelsOf(context);
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &bias = saved[1];
    const at::Tensor dy = ForKernels(gradients[0].to(x.scalar_type())), dx = at::empty_like(x);
    Sums sums(x, x.size(1), kernels.column_parts(x.size(0), x.size(1)));
    kernels.gelu_gradient({.dy = dy.const_data_ptr(),
                           .x = x.const_data_ptr(),
                           .bias = bias.const_data_ptr<float>(),
                           .dx = dx.mutable_data_ptr(),
                           .rows = x.size(0),
                           .columns = x.size(1),
                           .dbias = sums.memory()},
                          ElementOf(x));
    return {dx, sums.sums, {}};
  }
};

// Returns a gradient whose rows the join kernel can read.
at::Tensor WithRows(const at::Tensor& gradient) {
  const bool fits = gradient.stride(1) == 1 && gradient.stride(0) % kernels::kWidth == 0 && IsAligned(gradient);
  return fits ? gradient : ForKernels(gradient);
}

struct Products : torch::autograd::Function<Products> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                               at::TensorList biases, const c10::intrusive_ptr<KernelsHolder>& holder) {
    const at::Tensor y = at::addmm(at::cat(biases).to(x.scalar_type()), x, weight.t());
    context->save_for_backward({x, weight});
    context->saved_data["kernels"] = c10::IValue::make_capsule(holder);
    context->saved_data["type"] = biases[0].scalar_type();
    variable_list results;
    for (const at::Tensor& result : y.split(biases[0].size(0), 1)) results.push_back(result.variable_data());
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const TextKernels& kernels = KernelsOf(context);
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const int64_t rows = x.size(0), all_columns = weight.size(0), columns = all_columns / kernels::kMostJoined;
    const at::Tensor dy = at::empty({rows, all_columns}, x.options());
    Sums sums(x, all_columns, kernels.column_parts(rows, all_columns));
    kernels::JoinArguments join{
        .from = {}, .stride = {}, .to = dy.mutable_data_ptr(), .rows = rows, .columns = columns, .sums = sums.memory()};
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = WithRows(gradients[i].to(x.scalar_type()));
      join.from[i] = gradients[i].const_data_ptr();
      join.stride[i] = gradients[i].stride(0);
    }
    kernels.join(join, ElementOf(x));

    const auto type = context->saved_data["type"].toScalarType();
    variable_list results = {context->needs_input_grad(0) ? dy.mm(weight) : at::Tensor(),
                             context->needs_input_grad(1) ? dy.t().mm(x) : at::Tensor()};
    for (const at::Tensor& dbias : sums.sums.to(type).split(columns)) results.push_back(dbias);
    results.emplace_back();  // none for the kernels
    return results;
  }
};

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& answers,
                            int64_t ignored, const c10::intrusive_ptr<KernelsHolder>& holder) {
    const int64_t rows = logits.size(0);
    const at::Tensor log_sum_exp = at::empty({rows}, logits.options().dtype(at::kFloat));
    const at::Tensor loss = at::empty_like(log_sum_exp);
    holder->kernels.cross_entropy({.logits = logits.const_data_ptr(),
                                   .answers = answers.const_data_ptr<int64_t>(),
                                   .log_sum_exp = log_sum_exp.mutable_data_ptr<float>(),
                                   .loss = loss.mutable_data_ptr<float>(),
                                   .rows = rows,
                                   .columns = logits.size(1),
                                   .ignored = ignored},
                                  ElementOf(logits));
    context->save_for_backward({logits, answers, log_sum_exp});
    context->saved_data["ignored"] = ignored;
    context->saved_data["kernels"] = c10::IValue::make_capsule(holder);
    return loss.sum();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &logits = saved[0], &answers = saved[1], &log_sum_exp = saved[2];
    const at::Tensor dlogits = at::empty_like(logits);
    KernelsOf(context).cross_entropy_gradient({.logits = logits.const_data_ptr(),
                                               .answers = answers.const_data_ptr<int64_t>(),
                                               .log_sum_exp = log_sum_exp.const_data_ptr<float>(),
                                               .dloss = gradients[0].const_data_ptr<float>(),
                                               .dlogits = dlogits.mutable_data_ptr(),
                                               .rows = logits.size(0),
                                               .columns = logits.size(1),
                                               .ignored = context->saved_data["ignored"].toInt()},
                                              ElementOf(logits));
    return {dlogits, {}, {}, {}};
  }
};

// x has the type that the form says, and y gets this one.
ResidualPair WithForm(const TextKernels& kernels, const kernels::NormForm& form, const at::Tensor& x,
                      const at::Tensor& residual, const ResidualNorm& norm, at::ScalarType type) {
  TORCH_INTERNAL_ASSERT(x.size(1) <= kernels::kMostColumnsOfRow);
  std::optional<at::Tensor> x_bias, added;
  if (norm.x_bias.defined()) x_bias = ReadyVector(norm.x_bias);
  if (residual.defined()) added = ForKernels(residual.to(x.scalar_type()));
  const auto y = AddNorm::apply(ForKernels(x), x_bias, added, ReadyVector(norm.weight), ReadyVector(norm.bias),
                                c10::make_intrusive<NormSettings>(kernels, norm, type, form));
  return {y[0], y[1]};
}

}  // namespace

at::ScalarType GemmType(const at::Tensor& x) {
  const c10::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

bool HasTextKernels(const at::Tensor& x_SH, int64_t columns) {
  if (x_SH.is_meta()) return false;
  return HasElement(GemmType(x_SH)) && x_SH.dim() == 2 && x_SH.numel() > 0 && x_SH.size(1) % kernels::kWidth == 0 &&
         x_SH.size(1) <= kernels::kMostColumnsOfRow && columns % kernels::kWidth == 0;
}

ResidualPair AddNormalised(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& residual_SH,
                           const ResidualNorm& norm) {
  return WithForm(kernels, {}, x_SH, residual_SH, norm, x_SH.scalar_type());
}

ResidualPair NormalisedFirst(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& residual_SH,
                             const ResidualNorm& norm, at::ScalarType type) {
  const bool adds_floats = x_SH.scalar_type() != type;
  return WithForm(kernels, {.normalises_first = true, .adds_floats = adds_floats},
                  adds_floats ? x_SH.to(at::kFloat) : x_SH, residual_SH, norm, type);
}

at::Tensor BiasGelu(const TextKernels& kernels, const at::Tensor& x, const at::Tensor& bias) {
  return Gelu::apply(ForKernels(x), ReadyVector(bias), c10::make_intrusive<KernelsHolder>(kernels));
}

std::array<at::Tensor, 3> FusedQkv(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& weights_3HH,
                                   const std::array<at::Tensor, 3>& biases_H) {
  const auto y = Products::apply(ForKernels(x_SH), weights_3HH.to(x_SH.scalar_type()), at::TensorList(biases_H),
                                 c10::make_intrusive<KernelsHolder>(kernels));
  return {y[0], y[1], y[2]};
}

bool HasCrossEntropyKernels(const at::Tensor& logits_RV) {
  return !logits_RV.is_meta() && logits_RV.dim() == 2 && logits_RV.numel() > 0 && HasElement(logits_RV.scalar_type()) &&
         logits_RV.is_contiguous() && logits_RV.size(1) % kernels::kWidth == 0 && IsAligned(logits_RV);
}

at::Tensor CrossEntropySum(const TextKernels& kernels, const at::Tensor& logits_RV, const at::Tensor& answers_R,
                           int64_t ignored) {
  TORCH_INTERNAL_ASSERT(answers_R.numel() == logits_RV.size(0));
  return CrossEntropy::apply(logits_RV, answers_R.contiguous(), ignored, c10::make_intrusive<KernelsHolder>(kernels));
}

}  // namespace dtrain::models
