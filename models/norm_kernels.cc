// Where something is added, or two gradients meet, the first backward kernel writes the gradient of the sum, which is
// also that of z, and the second one reads it: the fewest bytes.
#include "models/norm_kernels.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

namespace dtrain::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

int64_t RowsOf(const at::Tensor& x_NCHW) { return x_NCHW.numel() / x_NCHW.size(1); }
int64_t PixelsOf(const at::Tensor& x_NCHW) { return x_NCHW.size(2) * x_NCHW.size(3); }

kernels::NormOfChannels PointersOf(const Normalisation& norm) {
  return {norm.mean.const_data_ptr<float>(), norm.inverse_std.const_data_ptr<float>(),
          norm.weight.const_data_ptr<float>(), norm.bias.const_data_ptr<float>()};
}

// Returns the scale for x's images; none if `factors_NC` is undefined.
kernels::Scale ScaleOf(const at::Tensor& factors_NC, const at::Tensor& x_NCHW) {
  return {factors_NC.defined() ? factors_NC.const_data_ptr() : nullptr, PixelsOf(x_NCHW)};
}

// Partial sums that live as long as this object: memory that a stream's later kernels may take, once those launched
// before are done.
struct PartialSums {
  PartialSums(const Normalisation& norm, int64_t rows)
      : parts(norm.kernels->num_parts(rows, norm.weight.size(0))),
        floats(at::empty({parts, 2, norm.weight.size(0)}, norm.weight.options())),
        finished(norm.finished) {}

  kernels::SumsMemory memory() {
    return {floats.mutable_data_ptr<float>(), reinterpret_cast<unsigned*>(finished.mutable_data_ptr<int32_t>()), parts};
  }

  int parts;
  at::Tensor floats, finished;
};

// Sums over all of this rank's rows.
struct GradientSums {
  explicit GradientSums(const Normalisation& norm)
      : both(at::empty({2, norm.weight.size(0)}, norm.weight.options())), dbias(both[0]), dweight(both[1]) {}

  at::Tensor both;            // (2, C)
  at::Tensor dbias, dweight;  // its two rows
};

kernels::PoolShape PoolShapeOf(const at::Tensor& x_NCHW) {
  return {static_cast<int>(x_NCHW.size(2)), static_cast<int>(x_NCHW.size(3))};
}

struct Output {
  at::Tensor y;
  at::Tensor aside = {};   // what the gradient needs to know of y
  at::Tensor maxima = {};  // of pooling: x where they are
};

Output Forward(const at::Tensor& x, const Normalisation& norm, const NormEpilogue& epilogue) {
  const Activation activation = epilogue.activation;
  const at::Tensor& z = epilogue.z_NCHW;
  const Normalisation* const z_norm = epilogue.z_norm;
  const auto bytes = x.options().dtype(at::kByte);
  if (activation == Activation::kReluPool) {
    const kernels::PoolShape shape = PoolShapeOf(x);
    at::Tensor y = at::empty({x.size(0), x.size(1), kernels::Pooled(shape.height), kernels::Pooled(shape.width)},
                             x.options(), kChannelsLast);
    at::Tensor maxima = at::empty_like(y),
               places = at::empty({y.numel() / kernels::kWidth}, x.options().dtype(at::kInt));
    norm.kernels->pool({.x = x.const_data_ptr(),
                        .y = y.mutable_data_ptr(),
                        .maxima = maxima.mutable_data_ptr(),
                        .places = reinterpret_cast<kernels::EightPlaces*>(places.mutable_data_ptr<int32_t>()),
                        .norm = PointersOf(norm),
                        .images = x.size(0),
                        .channels = x.size(1),
                        .pool = shape},
                       ElementOf(x));
    return {y, places, maxima};
  }
  at::Tensor y = at::empty_like(x), mask;
  if (activation == Activation::kRelu && z.defined()) mask = at::empty({x.numel() / kernels::kWidth}, bytes);
  norm.kernels->forward({.x = x.const_data_ptr(),
                         .z = z.defined() ? z.const_data_ptr() : nullptr,
                         .y = y.mutable_data_ptr(),
                         .mask = mask.defined() ? mask.mutable_data_ptr<uint8_t>() : nullptr,
                         .norm = PointersOf(norm),
                         .z_norm = z_norm != nullptr ? PointersOf(*z_norm) : kernels::NormOfChannels{},
                         .normalises_z = z_norm != nullptr,
                         .rows = RowsOf(x),
                         .channels = x.size(1),
                         .activation = activation,
                         .scale = ScaleOf(epilogue.factors_NC, x)},
                        ElementOf(x));
  return {y, mask};
}

kernels::GradientArguments WithTensor(kernels::GradientArguments gradient, const at::Tensor& x,
                                      const Normalisation& norm) {
  gradient.x = x.const_data_ptr();
  gradient.norm = PointersOf(norm);
  gradient.rows = RowsOf(x);
  gradient.channels = x.size(1);
  return gradient;
}

// Means over all rows: those of this rank, or of all ranks if the normalisation sums over them.
struct GradientMeans {
  GradientMeans(const Normalisation& norm, const GradientSums& sums, int64_t rows)
      : both(sums.both), per_row(1.0F / static_cast<float>(rows)) {
    if (norm.sum == nullptr) return;
    both = both.to(at::kDouble);
    (*norm.sum)(both);
    both = (both / norm.count).to(at::kFloat);
    per_row = 1;
  }

  // `dx` is where the gradient of x is written.
  kernels::BackwardArguments Through(const kernels::GradientArguments& gradient, at::Tensor& dx) const {
    return {.of = gradient,
            .sum_dy = both.const_data_ptr<float>(),
            .sum_dy_normalised = both.const_data_ptr<float>() + gradient.channels,
            .per_row = per_row,
            .dx = dx.mutable_data_ptr()};
  }

  at::Tensor both;  // (2, C) float32; times `per_row`, they are the means
  float per_row;
};

// Runs the last kernel of the backward pass and returns dx, which is written to `dx` if that is defined. `gradient` is
// what the sums were found from.
at::Tensor InputGradientOf(const at::Tensor& x_NCHW, const Normalisation& norm,
                           const kernels::GradientArguments& gradient, const GradientSums& sums, at::Tensor dx = {}) {
  if (!dx.defined()) dx = at::empty_like(x_NCHW);
  const GradientMeans means(norm, sums, gradient.rows);
  norm.kernels->backward(means.Through(gradient, dx), ElementOf(x_NCHW));
  return dx;
}

struct Gradients {
  at::Tensor dx, dweight, dbias;
};

bool IsOnlyUser(const at::Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

// The backward pass of one normalisation. If `dz` is defined, the gradient before the activation is written there.
// `maxima` is defined if the activation pools. `dys` are the gradients of y, which the first kernel may have been the
// last one to read: then their memory is free for others, because the backward pass begins where memory is at its peak.
// Where nobody else has dy, dx takes its place: each thread reads an element before it writes it.
Gradients Backward(const at::Tensor& x, const Normalisation& norm, kernels::GradientArguments gradient,
                   const at::Tensor& dz, const at::Tensor& maxima, variable_list& dys) {
  gradient = WithTensor(gradient, x, norm);
  const GradientSums sums(norm);
  kernels::GradientArguments summed = gradient;
  if (maxima.defined()) {
    summed.x = maxima.const_data_ptr();
    summed.rows = RowsOf(maxima);
  }
  PartialSums partial(norm, summed.rows);
  norm.kernels->sum({.of = summed,
                     .sums = partial.memory(),
                     .dbias = sums.dbias.mutable_data_ptr<float>(),
                     .dweight = sums.dweight.mutable_data_ptr<float>(),
                     .dz = dz.defined() ? dz.mutable_data_ptr() : nullptr},
                    ElementOf(x));
  at::Tensor dx;
  if (dz.defined()) {
    gradient.dy = dz.const_data_ptr();
    gradient.more_dy = nullptr;
    gradient.activation = Activation::kNone;
    dys.clear();
  } else if (!maxima.defined() && IsOnlyUser(dys[0])) {
    dx = dys[0];
  }
  return {InputGradientOf(x, norm, gradient, sums, dx), sums.dweight, sums.dbias};
}

// The backward pass of ReLU(norm(x) + z_norm(z)). `dys`: as in Backward.
std::pair<Gradients, Gradients> PairBackward(const at::Tensor& x, const Normalisation& norm, const at::Tensor& z,
                                             const Normalisation& z_norm, const kernels::GradientArguments& gradient,
                                             variable_list& dys) {
  at::Tensor du = at::empty_like(x);
  const GradientSums sums(norm), z_sums(z_norm);
  PartialSums partial(norm, RowsOf(x)), z_partial(z_norm, RowsOf(z));
  norm.kernels->pair_sum({.of_x = {.of = WithTensor(gradient, x, norm),
                                   .sums = partial.memory(),
                                   .dbias = sums.dbias.mutable_data_ptr<float>(),
                                   .dweight = sums.dweight.mutable_data_ptr<float>(),
                                   .dz = du.mutable_data_ptr()},
                          .z = z.const_data_ptr(),
                          .z_norm = PointersOf(z_norm),
                          .z_sums = z_partial.memory(),
                          .z_dbias = z_sums.dbias.mutable_data_ptr<float>(),
                          .z_dweight = z_sums.dweight.mutable_data_ptr<float>()},
                         ElementOf(x));
  dys.clear();
  at::Tensor dx = at::empty_like(x), dz = at::empty_like(z);
  kernels::GradientArguments plain{};
  plain.dy = du.const_data_ptr();
  plain.activation = Activation::kNone;
  const GradientMeans means(norm, sums, RowsOf(x)), z_means(z_norm, z_sums, RowsOf(z));
  norm.kernels->pair_backward(
      {means.Through(WithTensor(plain, x, norm), dx), z_means.Through(WithTensor(plain, z, z_norm), dz)}, ElementOf(x));
  return {{dx, sums.dweight, sums.dbias}, {dz, z_sums.dweight, z_sums.dbias}};
}

// Tensors of a Normalisation are saved and restored by autograd; the rest is kept as it is.
struct Kept : torch::CustomClassHolder {
  Normalisation norm, z_norm;
  Activation activation{};
  at::Tensor factors_NC;
  bool adds = false, normalises_z = false;
};

struct NormFunction : torch::autograd::Function<NormFunction> {
  // `main` and `shortcut` share their memory, but not their gradients.
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& /*weight*/,
                               const at::Tensor& /*bias*/, const std::optional<at::Tensor>& z,
                               const std::optional<at::Tensor>& /*z_weight*/,
                               const std::optional<at::Tensor>& /*z_bias*/, const c10::intrusive_ptr<Kept>& kept) {
    const auto [y, aside, maxima] = Forward(x, kept->norm,
                                            {.activation = kept->activation,
                                             .factors_NC = kept->factors_NC,
                                             .z_NCHW = z.value_or(at::Tensor()),
                                             .z_norm = kept->normalises_z ? &kept->z_norm : nullptr});
    const bool adds_plain = kept->adds && !kept->normalises_z;  // then z is not needed any more
    context->save_for_backward({x, adds_plain ? at::Tensor() : z.value_or(at::Tensor()), aside, maxima});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    context->set_materialize_grads(false);
    return {y, y.variable_data()};
  }

  // `gradients` is autograd's own list.
  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &z = saved[1], &aside = saved[2];
    if (!gradients[0].defined()) std::swap(gradients[0], gradients[1]);
    if (!gradients[0].defined()) return variable_list(7);
    for (at::Tensor& dy : gradients) {
      // As a view, it would keep the tensor that it is a view of.
      if (dy.defined()) dy = ForNormKernels(dy.to(x.scalar_type())).variable_data();
    }
    const bool two = gradients[1].defined(), pools = kept->activation == Activation::kReluPool;
    kernels::GradientArguments gradient{};
    gradient.dy = gradients[0].const_data_ptr();
    gradient.more_dy = two ? gradients[1].const_data_ptr() : nullptr;
    gradient.aside = aside.defined() ? aside.const_data_ptr() : nullptr;
    gradient.activation = kept->activation;
    gradient.pool = pools ? PoolShapeOf(x) : kernels::PoolShape{};
    gradient.scale = ScaleOf(kept->factors_NC, x);
    if (kept->normalises_z) {
      const auto [of_x, of_z] = PairBackward(x, kept->norm, z, kept->z_norm, gradient, gradients);
      return {of_x.dx, of_x.dweight, of_x.dbias, of_z.dx, of_z.dweight, of_z.dbias, {}};
    }
    at::Tensor dz;
    // A pooled gradient is a quarter of dz: reading it twice costs less.
    const bool is_dy = kept->activation == Activation::kNone && !two;
    if ((kept->adds && !is_dy) || (two && !pools)) dz = at::empty_like(x);
    const at::Tensor of_z = kept->adds && is_dy ? gradients[0] : dz;
    const Gradients of_x = Backward(x, kept->norm, gradient, dz, /*maxima=*/saved[3], gradients);
    return {of_x.dx, of_x.dweight, of_x.dbias, kept->adds ? of_z : at::Tensor(), {}, {}, {}};
  }
};

// Squeeze-and-excitation is two operations for autograd, because the gradient of the factors must go through the
// excitation before that of x can be found: Squeeze returns the means, and x under another name, of which Excite makes
// the product. In the backward pass, Excite hands the product's gradient to Squeeze as that of the name.

// What both operations know. Excite's backward pass leaves its sums for Squeeze's.
struct ExcitedNorm : torch::CustomClassHolder {
  Normalisation norm;
  int parts = 0;
  at::Tensor factors_NC, image_sums;
};

c10::intrusive_ptr<ExcitedNorm> KeptBy(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<ExcitedNorm>(context->saved_data["kept"].toCapsule());
}

at::Tensor AddPartsOfImages(const at::Tensor& of_parts) {
  return of_parts.size(0) == 1 ? of_parts[0] : of_parts.sum(0);
}

// Returns the numbers of images as the kernels take them.
at::Tensor OfImages(const at::Tensor& of_images, const at::Tensor& x_NCHW) {
  return ForKernels(of_images.detach().to(x_NCHW.scalar_type()));
}

// The arguments of all kernels of the backward pass.
kernels::GradientArguments GradientOf(const at::Tensor& x, const Normalisation& norm, const at::Tensor& dz,
                                      const at::Tensor& factors_NC, const at::Tensor& dmeans_NC) {
  kernels::GradientArguments gradient{};
  gradient.dy = dz.const_data_ptr();
  gradient.activation = Activation::kSilu;
  gradient.scale = ScaleOf(factors_NC, x);
  gradient.dmeans = dmeans_NC.defined() ? dmeans_NC.const_data_ptr() : nullptr;
  return WithTensor(gradient, x, norm);
}

struct Squeeze : torch::autograd::Function<Squeeze> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& /*weight*/,
                               const at::Tensor& /*bias*/, const c10::intrusive_ptr<ExcitedNorm>& kept) {
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
    return {x.variable_data(), AddPartsOfImages(means).to(x.scalar_type())};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto kept = KeptBy(context);
    const Normalisation& norm = kept->norm;
    const at::Tensor x = context->get_saved_variables()[0], &dz = gradients[0];
    if (!dz.defined()) return variable_list(4);
    const at::Tensor factors = std::move(kept->factors_NC), image_sums = std::move(kept->image_sums);
    const at::Tensor dmeans = gradients[1].defined() ? OfImages(gradients[1], x) : at::zeros_like(factors);
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
    return {InputGradientOf(x, norm, gradient, sums), sums.dweight, sums.dbias, {}};
  }
};

struct Excite : torch::autograd::Function<Excite> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& factors,
                            const c10::intrusive_ptr<ExcitedNorm>& kept) {
    context->save_for_backward({x, factors});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    return Forward(x, kept->norm, {.activation = Activation::kSilu, .factors_NC = OfImages(factors, x)}).y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto kept = KeptBy(context);
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &factors = saved[1];
    const at::Tensor dz = ForNormKernels(gradients[0].to(x.scalar_type()));
    kept->factors_NC = OfImages(factors, x);
    kept->image_sums = at::empty({kept->parts, kernels::kImageSums, x.size(0), x.size(1)}, kept->norm.mean.options());
    kept->norm.kernels->image_sums({.of = GradientOf(x, kept->norm, dz, kept->factors_NC, /*dmeans_NC=*/{}),
                                    .parts = kept->parts,
                                    .sums = kept->image_sums.mutable_data_ptr<float>()},
                                   ElementOf(x));
    return {dz, AddPartsOfImages(kept->image_sums.select(1, kernels::kDyY)).to(factors.scalar_type()), {}};
  }
};

}  // namespace

at::Tensor ZeroCounters(const at::Tensor& weight) {
  return at::zeros({kernels::NumColumns(weight.size(0))}, weight.options().dtype(at::kInt));
}

bool HasNormKernels(const at::Tensor& x_NCHW) {
  return HasElement(x_NCHW.scalar_type()) && x_NCHW.dim() == 4 && x_NCHW.size(1) % kernels::kWidth == 0 &&
         x_NCHW.numel() > 0 && RowsOf(x_NCHW) <= INT32_MAX && x_NCHW.suggest_memory_format() == kChannelsLast;
}

at::Tensor ForNormKernels(const at::Tensor& x_NCHW) { return ForKernels(x_NCHW, kChannelsLast); }

void FindStatistics(const at::Tensor& x_NCHW, Normalisation& norm, const RunningStatistics& running) {
  const at::NoGradGuard no_grad;
  const at::Tensor statistics = at::empty({3, x_NCHW.size(1)}, norm.weight.options());
  const at::Tensor variance = statistics[1];
  norm.mean = statistics[0];
  norm.inverse_std = statistics[2];
  const bool updates = norm.sum == nullptr;
  const auto of_running = [&](const at::Tensor& t) { return updates ? t.mutable_data_ptr<float>() : nullptr; };
  PartialSums partial(norm, RowsOf(x_NCHW));
  norm.kernels->statistics({.x = x_NCHW.const_data_ptr(),
                            .rows = RowsOf(x_NCHW),
                            .channels = x_NCHW.size(1),
                            .sums = partial.memory(),
                            .mean = norm.mean.mutable_data_ptr<float>(),
                            .variance = variance.mutable_data_ptr<float>(),
                            .inverse_std = norm.inverse_std.mutable_data_ptr<float>(),
                            .running_mean = of_running(running.mean),
                            .running_var = of_running(running.variance),
                            .batches = running.batches.mutable_data_ptr<int64_t>(),
                            .momentum = running.momentum,
                            .epsilon = norm.epsilon},
                           ElementOf(x_NCHW));
  if (updates) return;
  const RankStatistics all = OverRanks(norm.mean, variance, RowsOf(x_NCHW), *norm.sum);
  UpdateRunning(all, running);
  norm.mean = all.mean;
  norm.inverse_std = at::rsqrt(all.variance + norm.epsilon);
  norm.count = all.count;
}

ResidualPair Normalised(const at::Tensor& x_NCHW, const Normalisation& norm, const NormEpilogue& epilogue) {
  const Activation activation = epilogue.activation;
  const bool can_add = activation == Activation::kNone || activation == Activation::kRelu;
  TORCH_INTERNAL_ASSERT(can_add || !epilogue.z_NCHW.defined());
  TORCH_INTERNAL_ASSERT(activation == Activation::kRelu || epilogue.z_norm == nullptr);
  TORCH_INTERNAL_ASSERT(activation == Activation::kNone || !epilogue.factors_NC.defined());
  const auto kept = c10::make_intrusive<Kept>();
  kept->norm = norm;
  kept->activation = activation;
  kept->factors_NC = epilogue.factors_NC;
  kept->adds = epilogue.z_NCHW.defined();
  kept->normalises_z = epilogue.z_norm != nullptr;
  std::optional<at::Tensor> z, z_weight, z_bias;
  if (kept->adds) z = epilogue.z_NCHW;
  if (kept->normalises_z) {
    kept->z_norm = *epilogue.z_norm;
    z_weight = kept->z_norm.weight;
    z_bias = kept->z_norm.bias;
  }
  const auto y = NormFunction::apply(x_NCHW, norm.weight, norm.bias, z, z_weight, z_bias, kept);
  return {y[0], y[1]};
}

at::Tensor SqueezeExcite(const at::Tensor& x_NCHW, const Normalisation& norm, const Excitation& excitation) {
  const auto kept = c10::make_intrusive<ExcitedNorm>();
  kept->norm = norm;
  kept->parts = norm.kernels->num_image_parts(x_NCHW.size(0), PixelsOf(x_NCHW), x_NCHW.size(1));
  const auto squeezed = Squeeze::apply(x_NCHW, norm.weight, norm.bias, kept);
  return Excite::apply(squeezed[0], excitation(squeezed[1]), kept);
}

}  // namespace dtrain::models
