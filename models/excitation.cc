// Two operations for autograd, because the gradient of the factors must go through the excitation before that of x can
// be found: Squeeze returns the means, and x under another name, of which Excite makes the product. In the backward
// pass, Excite hands the product's gradient to Squeeze as that of the name.
#include "models/excitation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/element_of.h"
#include "models/norm_backward.h"

namespace dtrain::models {
namespace {

// What both operations know. Excite's backward pass leaves its sums for Squeeze's.
struct ExcitedNorm : torch::CustomClassHolder {
  Normalisation norm;
  int parts = 0;
  at::Tensor factors_NC, image_sums;
};

c10::intrusive_ptr<ExcitedNorm> KeptBy(torch::autograd::AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<ExcitedNorm>(context->saved_data["kept"].toCapsule());
}

int64_t PixelsOf(const at::Tensor& x_NCHW) { return x_NCHW.size(2) * x_NCHW.size(3); }

at::Tensor AddParts(const at::Tensor& of_parts) { return of_parts.size(0) == 1 ? of_parts[0] : of_parts.sum(0); }

at::Tensor ForKernels(const at::Tensor& of_images, const at::Tensor& x_NCHW) {
  const at::Tensor whole = of_images.detach().to(x_NCHW.scalar_type()).contiguous();
  return IsAligned(whole) ? whole : whole.clone();
}

// The arguments of all kernels of the backward pass.
kernels::GradientArguments GradientOf(const at::Tensor& x, const Normalisation& norm, const at::Tensor& dz,
                                      const at::Tensor& factors_NC, const at::Tensor& dmeans_NC) {
  return {.dy = dz.const_data_ptr(),
          .more_dy = nullptr,
          .x = x.const_data_ptr(),
          .aside = nullptr,
          .norm = PointersOf(norm),
          .rows = RowsOf(x),
          .channels = x.size(1),
          .activation = Activation::kSilu,
          .pool = {},
          .scale = ScaleOf(factors_NC, x),
          .dmeans = dmeans_NC.defined() ? dmeans_NC.const_data_ptr() : nullptr};
}

struct Squeeze : torch::autograd::Function<Squeeze> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                                                const at::Tensor& /*weight*/, const at::Tensor& /*bias*/,
                                                const c10::intrusive_ptr<ExcitedNorm>& kept) {
    const Normalisation& norm = kept->norm;
    const at::Tensor means = at::empty({kept->parts, x.size(0), x.size(1)}, norm.mean.options());
    norm.kernels->squeeze({.x = x.const_data_ptr(),
                           .norm = PointersOf(norm),
                           .images = x.size(0),
                           .pixels = PixelsOf(x),
                           .channels = x.size(1),
                           .parts = kept->parts,
                           .means = means.mutable_data_ptr<float>()},
                          ElementOf(x));
    context->save_for_backward({x});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    context->set_materialize_grads(false);
    return {x.variable_data(), AddParts(means).to(x.scalar_type())};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto kept = KeptBy(context);
    const Normalisation& norm = kept->norm;
    const at::Tensor x = context->get_saved_variables()[0], &dz = gradients[0];
    if (!dz.defined()) return torch::autograd::variable_list(4);
    const at::Tensor factors = std::move(kept->factors_NC), image_sums = std::move(kept->image_sums);
    const at::Tensor dmeans = gradients[1].defined() ? ForKernels(gradients[1], x) : at::zeros_like(factors);
    const kernels::GradientArguments gradient = GradientOf(x, norm, dz, factors, dmeans);
    const GradientSums sums(norm);
    PartialSums partial(norm, image_sums.numel() / x.size(1));
    norm.kernels->add_images({.of = gradient,
                              .parts = kept->parts,
                              .image_sums = image_sums.const_data_ptr<float>(),
                              .sums = partial.memory(),
                              .dbias = sums.dbias.mutable_data_ptr<float>(),
                              .dweight = sums.dweight.mutable_data_ptr<float>()},
                             ElementOf(x));
    return {InputGradient(x, norm, gradient, sums), sums.dweight, sums.dbias, {}};
  }
};

struct Excite : torch::autograd::Function<Excite> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& factors,
                            const c10::intrusive_ptr<ExcitedNorm>& kept) {
    context->save_for_backward({x, factors});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    const at::Tensor factors_NC = ForKernels(factors, x);
    at::Tensor z = at::empty_like(x);
    kept->norm.kernels->forward({.x = x.const_data_ptr(),
                                 .z = nullptr,
                                 .y = z.mutable_data_ptr(),
                                 .mask = nullptr,
                                 .norm = PointersOf(kept->norm),
                                 .z_norm = {},
                                 .normalises_z = false,
                                 .rows = RowsOf(x),
                                 .channels = x.size(1),
                                 .activation = Activation::kSilu,
                                 .scale = ScaleOf(factors_NC, x)},
                                ElementOf(x));
    return z;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto kept = KeptBy(context);
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &factors = saved[1];
    const at::Tensor dz = ForNormKernels(gradients[0].to(x.scalar_type()));
    kept->factors_NC = ForKernels(factors, x);
    kept->image_sums = at::empty({kept->parts, kernels::kImageSums, x.size(0), x.size(1)}, kept->norm.mean.options());
    kept->norm.kernels->image_sums({.of = GradientOf(x, kept->norm, dz, kept->factors_NC, /*dmeans_NC=*/{}),
                                    .parts = kept->parts,
                                    .sums = kept->image_sums.mutable_data_ptr<float>()},
                                   ElementOf(x));
    return {dz, AddParts(kept->image_sums.select(1, kernels::kDyY)).to(factors.scalar_type()), {}};
  }
};

}  // namespace

at::Tensor SqueezeExcite(const at::Tensor& x_NCHW, const Normalisation& norm, const Excitation& excitation) {
  const auto kept = c10::make_intrusive<ExcitedNorm>();
  kept->norm = norm;
  kept->parts = norm.kernels->num_image_parts(x_NCHW.size(0), PixelsOf(x_NCHW), x_NCHW.size(1));
  const auto squeezed = Squeeze::apply(x_NCHW, norm.weight, norm.bias, kept);
  return Excite::apply(squeezed[0], excitation(squeezed[1]), kept);
}

}  // namespace dtrain::models
