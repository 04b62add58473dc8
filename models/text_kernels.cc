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
               kernels::NormForm of_kernels)
      : kernels(of_device),
        epsilon(norm.epsilon),
        type(of_result),
        form(of_kernels),
        dropout(norm.dropout),
        drops(norm.dropout > 0),
        changes_x((Scales(form) && norm.scale.defined()) || (drops && !NormalisesFirst(form))),
        rows_of_sample(norm.rows_of_sample) {}

  const TextKernels& kernels;
  double epsilon;
  at::ScalarType type;  // of the sum and y
  kernels::NormForm form;
  kernels::Dropout dropout;
  bool drops, changes_x;  // changes_x: the gradient of x is not that of the residual
  int64_t rows_of_sample;
};

// Returns where a tensor that may be missing begins, or null.
template <typename T>
const T* DataOf(const std::optional<at::Tensor>& tensor) {
  return tensor ? static_cast<const T*>(tensor->const_data_ptr()) : nullptr;
}

struct AddNorm : torch::autograd::Function<AddNorm> {
  // Two results may share their memory, but not their gradients.
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& x_bias,
                               const std::optional<at::Tensor>& residual, const std::optional<at::Tensor>& weight,
                               const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& scale,
                               const c10::intrusive_ptr<NormSettings>& settings) {
    const int64_t rows = x.size(0), columns = x.size(1);
    const kernels::NormForm form = settings->form;
    // Without a residual, the sum is found again from x.
    const bool keeps_sum = residual || x.scalar_type() != settings->type;
    const auto made = [&](bool is_wanted) { return is_wanted ? at::empty_like(x, settings->type) : at::Tensor(); };
    const at::Tensor sum = made(keeps_sum), y = made(Normalises(form)), result = y.defined() ? y : sum;
    const at::Tensor statistics = at::empty({2, Normalises(form) ? rows : 0}, x.options().dtype(at::kFloat));
    at::Tensor mask;
    if (settings->drops) {
      const int64_t bytes = settings->rows_of_sample > 0 ? rows : x.numel() / kernels::kWidth;
      mask = at::empty({bytes}, x.options().dtype(at::kByte));
    }
    auto* const mean = statistics.mutable_data_ptr<float>();
    settings->kernels.norm({.form = form,
                            .x = x.const_data_ptr(),
                            .residual = DataOf<void>(residual),
                            .x_bias = DataOf<float>(x_bias),
                            .scale = DataOf<float>(scale),
                            .weight = DataOf<float>(weight),
                            .bias = DataOf<float>(bias),
                            .sum = sum.defined() ? sum.mutable_data_ptr() : nullptr,
                            .y = y.defined() ? y.mutable_data_ptr() : nullptr,
                            .mask = mask.defined() ? mask.mutable_data_ptr<uint8_t>() : nullptr,
                            .mean = mean,
                            .inverse_std = mean + statistics.size(1),
                            .rows = rows,
                            .columns = columns,
                            .rows_of_sample = settings->rows_of_sample,
                            .epsilon = static_cast<float>(settings->epsilon),
                            .dropout = settings->dropout,
                            .random = settings->drops ? settings->kernels.random() : kernels::RandomState{}},
                           ElementOf(result));
    const auto kept = [](bool is_wanted, const std::optional<at::Tensor>& tensor) {
      return is_wanted ? tensor.value_or(at::Tensor()) : at::Tensor();
    };
    context->save_for_backward({Normalises(form) ? sum : at::Tensor(), kept(true, weight), statistics, mask,
                                kept(scale || !keeps_sum, x), kept(scale || !keeps_sum, x_bias), kept(true, scale)});
    context->saved_data["settings"] = c10::IValue::make_capsule(settings);
    context->saved_data["x_type"] = x.scalar_type();
    context->saved_data["has"] =
        std::vector<bool>{x_bias.has_value(), residual.has_value(), bias.has_value(), scale.has_value()};
    context->set_materialize_grads(false);
    if (form == kernels::NormForm::kBefore) return {y, sum};
    return {result, result.variable_data()};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto settings = c10::static_intrusive_pointer_cast<NormSettings>(context->saved_data["settings"].toCapsule());
    const kernels::NormForm form = settings->form;
    const auto saved = context->get_saved_variables();
    const at::Tensor &statistics = saved[2], &mask = saved[3];
    if (!gradients[0].defined() && !gradients[1].defined()) return variable_list(7);
    if (!gradients[0].defined()) {
      if (form == kernels::NormForm::kBefore)
        gradients[0] = at::zeros_like(gradients[1]);
      else
        std::swap(gradients[0], gradients[1]);
    }
    for (at::Tensor& dy : gradients) {
      if (dy.defined()) dy = ForKernels(dy.to(settings->type));
    }
    const at::Tensor &dy = gradients[0], &more_dy = gradients[1];
    const int64_t rows = dy.size(0), columns = dy.size(1);
    const auto type = context->saved_data["x_type"].toScalarType();
    // The gradient of a sum that has one user, and no norm, is there already.
    const bool is_given = form == kernels::NormForm::kSumAlone && !more_dy.defined();
    const at::Tensor dresidual = is_given ? dy : at::empty_like(dy, type);
    const at::Tensor dx = settings->changes_x ? at::empty_like(dy, type) : dresidual;
    const int64_t vectors = EndOfVectors(form) - FirstVector(form);
    Sums sums(dy, vectors * columns, settings->kernels.norm_parts(rows, columns));
    const auto data = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; };
    const auto floats = [&](const at::Tensor& tensor) { return static_cast<const float*>(data(tensor)); };
    const auto* mean = statistics.const_data_ptr<float>();
    settings->kernels.norm_gradient({.form = form,
                                     .dy = dy.const_data_ptr(),
                                     .more_dy = data(more_dy),
                                     .sum = data(saved[0]),
                                     .x = data(saved[4]),
                                     .x_bias = floats(saved[5]),
                                     .scale = floats(saved[6]),
                                     .mask = static_cast<const uint8_t*>(data(mask)),
                                     .weight = floats(saved[1]),
                                     .mean = mean,
                                     .inverse_std = mean + statistics.size(1),
                                     .dresidual = is_given ? nullptr : dresidual.mutable_data_ptr(),
                                     .dx = settings->changes_x ? dx.mutable_data_ptr() : nullptr,
                                     .rows = rows,
                                     .columns = columns,
                                     .rows_of_sample = settings->rows_of_sample,
                                     .dropout_scale = settings->dropout.scale,
                                     .sums = sums.memory()},
                                    ElementOf(dy));
    const std::vector<bool> has = context->saved_data["has"].to<std::vector<bool>>();
    const auto of = [&](kernels::NormVector vector, bool is_wanted) {
      return is_wanted ? sums.sums.narrow(0, (vector - FirstVector(form)) * columns, columns) : at::Tensor();
    };
    return {dx,
            of(kernels::kBiasOfX, has[0]),
            has[1] ? dresidual : at::Tensor(),
            of(kernels::kNormWeight, Normalises(form)),
            of(kernels::kNormBias, has[2]),
            of(kernels::kScaleOfX, has[3]),
            {}};
  }
};

// The kernels live until the backward pass.
void KeepKernels(const TextKernels* kernels, AutogradContext* context) {
  context->saved_data["kernels"] = reinterpret_cast<int64_t>(kernels);
}
const TextKernels& KernelsOf(AutogradContext* context) {
  return *reinterpret_cast<const TextKernels*>(context->saved_data["kernels"].toInt());
}

struct Unit : torch::autograd::Function<Unit> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& bias,
                            LinearUnit unit, const TextKernels* kernels) {
    const int64_t columns = x.size(1) / HalvesOf(unit);
    at::Tensor y = at::empty({x.size(0), columns}, x.options());
    kernels->unit({.unit = unit,
                   .x = x.const_data_ptr(),
                   .bias = DataOf<float>(bias),
                   .y = y.mutable_data_ptr(),
                   .rows = x.size(0),
                   .columns = columns},
                  ElementOf(x));
    context->save_for_backward({x, bias.value_or(at::Tensor())});
    KeepKernels(kernels, context);
    context->saved_data["unit"] = static_cast<int64_t>(unit);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const TextKernels& kernels = KernelsOf(context);
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &bias = saved[1];
    const at::Tensor dy = ForKernels(gradients[0].to(x.scalar_type())), dx = at::empty_like(x);
    const int64_t rows = dy.size(0), columns = dy.size(1);
    Sums sums(x, bias.defined() ? x.size(1) : 0, kernels.column_parts(rows, columns));
    kernels.unit_gradient({.unit = static_cast<LinearUnit>(context->saved_data["unit"].toInt()),
                           .dy = dy.const_data_ptr(),
                           .x = x.const_data_ptr(),
                           .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                           .dx = dx.mutable_data_ptr(),
                           .rows = rows,
                           .columns = columns,
                           .dbias = sums.memory()},
                          ElementOf(x));
    return {dx, bias.defined() ? sums.sums : at::Tensor(), {}, {}};
  }
};

// Returns a gradient whose rows the join kernel can read.
at::Tensor WithRows(const at::Tensor& gradient) {
  const bool fits = gradient.stride(1) == 1 && gradient.stride(0) % kernels::kWidth == 0 && IsAligned(gradient);
  return fits ? gradient : ForKernels(gradient);
}

// The product's result is written over, since nobody needs it as it was: a product's gradients need its factors alone.
struct Rotated : torch::autograd::Function<Rotated> {
  static variable_list forward(AutogradContext* context, const at::Tensor& product, const at::Tensor& cosine,
                               const at::Tensor& sine, const TextKernels* kernels) {
    const int64_t columns = product.size(1) / kernels::kMostJoined;
    const variable_list parts = product.split(columns, 1);
    kernels->rotate(ArgumentsOf({parts[0], parts[1]}, product, cosine, sine, /*back=*/false), ElementOf(product));
    context->save_for_backward({cosine, sine});
    KeepKernels(kernels, context);
    variable_list results;
    for (const at::Tensor& part : parts) results.push_back(part.variable_data());
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    for (at::Tensor& gradient : gradients) gradient = WithRows(gradient);
    const at::Tensor& dq = gradients[0];
    const at::Tensor dproduct = at::empty({dq.size(0), kernels::kMostJoined * dq.size(1)}, dq.options());
    KernelsOf(context).rotate(ArgumentsOf(gradients, dproduct, saved[0], saved[1], /*back=*/true), ElementOf(dq));
    return {dproduct, {}, {}, {}};
  }

 private:
  static kernels::RotationArguments ArgumentsOf(const variable_list& from, const at::Tensor& to,
                                                const at::Tensor& cosine, const at::Tensor& sine, bool back) {
    kernels::RotationArguments arguments{.from = {},
                                         .stride = {},
                                         .to = to.mutable_data_ptr(),
                                         .cosine = cosine.const_data_ptr<float>(),
                                         .sine = sine.const_data_ptr<float>(),
                                         .angle_stride = cosine.size(1),
                                         .rows = to.size(0),
                                         .columns = from[0].size(1),
                                         .features = cosine.size(1),
                                         .back = back};
    for (size_t i = 0; i < from.size(); ++i) {
      arguments.from[i] = from[i].const_data_ptr();
      arguments.stride[i] = from[i].stride(0);
    }
    return arguments;
  }
};

struct Products : torch::autograd::Function<Products> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                               at::TensorList biases, const TextKernels* kernels) {
    const at::Tensor y = at::addmm(at::cat(biases).to(x.scalar_type()), x, weight.t());
    context->save_for_backward({x, weight});
    KeepKernels(kernels, context);
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
                            int64_t ignored, const TextKernels* kernels) {
    const int64_t rows = logits.size(0);
    const at::Tensor log_sum_exp = at::empty({rows}, logits.options().dtype(at::kFloat));
    const at::Tensor loss = at::empty_like(log_sum_exp);
    kernels->cross_entropy({.logits = logits.const_data_ptr(),
                            .answers = answers.const_data_ptr<int64_t>(),
                            .log_sum_exp = log_sum_exp.mutable_data_ptr<float>(),
                            .loss = loss.mutable_data_ptr<float>(),
                            .rows = rows,
                            .columns = logits.size(1),
                            .ignored = ignored},
                           ElementOf(logits));
    context->save_for_backward({logits, answers, log_sum_exp});
    context->saved_data["ignored"] = ignored;
    KeepKernels(kernels, context);
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
ResidualPair WithForm(const TextKernels& kernels, kernels::NormForm form, const at::Tensor& x,
                      const at::Tensor& residual, const ResidualNorm& norm, at::ScalarType type) {
  TORCH_INTERNAL_ASSERT(x.size(1) <= kernels::kMostColumnsOfRow);
  TORCH_INTERNAL_ASSERT(kernels::Scales(form) || (norm.rows_of_sample == 0 && !norm.scale.defined()));
  TORCH_INTERNAL_ASSERT(kernels::Normalises(form) == norm.weight.defined());
  const auto ready = [](const at::Tensor& vector) {
    return vector.defined() ? std::optional(ReadyVector(vector)) : std::nullopt;
  };
  std::optional<at::Tensor> added;
  if (residual.defined()) added = ForKernels(residual.to(x.scalar_type()));
  const auto y = AddNorm::apply(ForKernels(x), ready(norm.x_bias), added, ready(norm.weight), ready(norm.bias),
                                ready(norm.scale), c10::make_intrusive<NormSettings>(kernels, norm, type, form));
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
  return WithForm(kernels, kernels::NormForm::kAfter, x_SH, residual_SH, norm, x_SH.scalar_type());
}

ResidualPair SumNormalised(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& residual_SH,
                           const ResidualNorm& norm) {
  const auto form = norm.weight.defined() ? kernels::NormForm::kBefore : kernels::NormForm::kSumAlone;
  return WithForm(kernels, form, x_SH, residual_SH, norm, x_SH.scalar_type());
}

ResidualPair NormalisedFirst(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& residual_SH,
                             const ResidualNorm& norm, at::ScalarType type) {
  const bool adds_floats = x_SH.scalar_type() != type;
  return WithForm(kernels, adds_floats ? kernels::NormForm::kFirstOfFloats : kernels::NormForm::kFirst,
                  adds_floats ? x_SH.to(at::kFloat) : x_SH, residual_SH, norm, type);
}

at::Tensor UnitOf(const TextKernels& kernels, LinearUnit unit, const at::Tensor& x, const at::Tensor& bias) {
  const auto added = bias.defined() ? std::optional(ReadyVector(bias)) : std::nullopt;
  return Unit::apply(ForKernels(x), added, unit, &kernels);
}

std::array<at::Tensor, 3> RotatedQkv(const TextKernels& kernels, const at::Tensor& product_S3H,
                                     const at::Tensor& cosine_Sd, const at::Tensor& sine_Sd) {
  const auto parts = Rotated::apply(ForKernels(product_S3H), cosine_Sd, sine_Sd, &kernels);
  return {parts[0], parts[1], parts[2]};
}

std::array<at::Tensor, 3> FusedQkv(const TextKernels& kernels, const at::Tensor& x_SH, const at::Tensor& weights_3HH,
                                   const std::array<at::Tensor, 3>& biases_H) {
  const auto y =
      Products::apply(ForKernels(x_SH), weights_3HH.to(x_SH.scalar_type()), at::TensorList(biases_H), &kernels);
  return {y[0], y[1], y[2]};
}

bool HasCrossEntropyKernels(const at::Tensor& logits_RV) {
  return !logits_RV.is_meta() && logits_RV.dim() == 2 && logits_RV.numel() > 0 && HasElement(logits_RV.scalar_type()) &&
         logits_RV.is_contiguous() && logits_RV.size(1) % kernels::kWidth == 0 && IsAligned(logits_RV);
}

at::Tensor CrossEntropySum(const TextKernels& kernels, const at::Tensor& logits_RV, const at::Tensor& answers_R,
                           int64_t ignored) {
  TORCH_INTERNAL_ASSERT(answers_R.numel() == logits_RV.size(0));
  return CrossEntropy::apply(logits_RV, answers_R.contiguous(), ignored, &kernels);
}

}  // namespace dtrain::models
