// Each way to convolve is a row of kWays, with what it needs.
//
// Depthwise convolutions on a CPU: the work of their gradients is cut into tasks, each for a group of channels of some
// samples. A task's result does not depend on its thread.
//
// The first convolution: with a row and a column of zeros before it, a kernel of k = 4m − 1 pixels has 2m × 2m squares
// of four pixels, which begin where the squares of the image do: a stride of 2 pixels is one square.
#include "models/convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "models/cpu_operations.h"
#include "models/forward_cost.h"
#include "models/layers.h"
#include "models/norm_kernels.h"
#include "models/vector_kernels.h"

namespace dtrain::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The gradient of the weights is summed in parts of this size, for any number of threads
constexpr int64_t kSamplesOfPart = 8;

int64_t Parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

at::Tensor WeightGradient(const DepthwiseShape& s, const at::Tensor& x, const at::Tensor& dy) {
  const int64_t parts = Parts(s.samples, kSamplesOfPart), groups = Parts(s.channels, kDepthwiseGroup);
  const int64_t taps = s.kernel * s.kernel;
  const at::Tensor partial = at::zeros({parts, groups, taps, kDepthwiseGroup});
  const float *x_data = x.const_data_ptr<float>(), *dy_data = dy.const_data_ptr<float>();
  auto* sums = partial.mutable_data_ptr<float>();
  at::parallel_for(0, parts * groups, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t begin = task / groups * kSamplesOfPart;
      AddDepthwiseWeightGradient(s, x_data, dy_data, task % groups * kDepthwiseGroup, begin,
                                 std::min(s.samples, begin + kSamplesOfPart), sums + task * taps * kDepthwiseGroup);
    }
  });
  const at::Tensor by_channel = partial.sum(0).permute({0, 2, 1}).reshape({groups * kDepthwiseGroup, taps});
  return by_channel.slice(0, 0, s.channels).reshape({s.channels, 1, s.kernel, s.kernel}).contiguous();
}

// Convolves the gradient of y, which stride 2 sets apart with zeros, with the turned filter: oneDNN's forward pass is
// several times as fast as its pass for this gradient.
at::Tensor InputGradient(const DepthwiseShape& s, const at::Tensor& weight, const at::Tensor& dy) {
  at::Tensor apart = dy;
  if (s.stride > 1) {
    apart = at::zeros({s.samples, s.channels, s.height, s.width}, dy.options().memory_format(kChannelsLast));
    apart.slice(2, 0, s.height, s.stride).slice(3, 0, s.width, s.stride).copy_(dy);
  }
  return at::conv2d(apart, weight.flip({2, 3}), /*bias=*/{}, /*stride=*/1, s.padding(), /*dilation=*/1, s.channels);
}

class Depthwise : public torch::autograd::Function<Depthwise> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    return at::conv2d(x, weight, /*bias=*/{}, stride, weight.size(2) / 2, /*dilation=*/1, /*groups=*/x.size(1));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = gradients[0].contiguous(kChannelsLast);
    const DepthwiseShape shape = {x.size(0),  x.size(1),  x.size(2),      x.size(3),
                                  dy.size(2), dy.size(3), weight.size(2), context->saved_data["stride"].toInt()};
    return {context->needs_input_grad(0) ? InputGradient(shape, weight, dy) : at::Tensor(),
            context->needs_input_grad(1) ? WeightGradient(shape, x, dy) : at::Tensor(), at::Tensor()};
  }
};

// What the backward pass on a device needs besides tensors.
struct DeviceConvolution : torch::CustomClassHolder {
  const DepthwiseKernels* kernels = nullptr;
  kernels::DepthwiseShape shape{};
  at::ScalarType weight_type{};
};

kernels::DepthwiseShape DeviceShapeOf(const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  const int64_t kernel = weight.size(2);
  const auto out = [&](int64_t size) { return static_cast<int>((size + 2 * (kernel / 2) - kernel) / stride + 1); };
  const auto of = [&](int dimension) { return static_cast<int>(x.size(dimension)); };
  return {.images = of(0),
          .channels = of(1),
          .height = of(2),
          .width = of(3),
          .out_height = out(x.size(2)),
          .out_width = out(x.size(3)),
          .kernel = static_cast<int>(kernel),
          .stride = static_cast<int>(stride)};
}

class DepthwiseOnDevice : public torch::autograd::Function<DepthwiseOnDevice> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_NCHW, const at::Tensor& weight,
                            const c10::intrusive_ptr<DeviceConvolution>& kept) {
    const at::Tensor x = ForNormKernels(x_NCHW), filters = weight.flatten(1);
    const at::Tensor taps = at::empty({filters.size(1), filters.size(0)}, x.options()).copy_(filters.t());
    context->save_for_backward({x, taps});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    at::Tensor y =
        at::empty({x.size(0), x.size(1), kept->shape.out_height, kept->shape.out_width}, x.options(), kChannelsLast);
    Convolve(*kept, x, taps, y, /*backward=*/false);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto kept = c10::static_intrusive_pointer_cast<DeviceConvolution>(context->saved_data["kept"].toCapsule());
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &taps = saved[1], dy = ForNormKernels(gradients[0].to(x.scalar_type()));
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = at::empty_like(x);
      Convolve(*kept, dy, taps, dx, /*backward=*/true);
    }
    return {dx, context->needs_input_grad(1) ? WeightGradientOf(*kept, x, dy) : at::Tensor(), {}};
  }

 private:
  static void Convolve(const DeviceConvolution& kept, const at::Tensor& from, const at::Tensor& taps,
                       const at::Tensor& to, bool backward) {
    kept.kernels->convolve({.from = from.const_data_ptr(),
                            .taps = taps.const_data_ptr(),
                            .to = to.mutable_data_ptr(),
                            .shape = kept.shape,
                            .backward = backward,
                            .rows_per_thread = 0},
                           ElementOf(from));
  }

  static at::Tensor WeightGradientOf(const DeviceConvolution& kept, const at::Tensor& x, const at::Tensor& dy) {
    const int64_t kernel = kept.shape.kernel, channels = kept.shape.channels;
    const int parts = kept.kernels->num_parts(kept.shape);
    const at::Tensor sums = at::empty({parts, kernel * kernel, channels}, x.options().dtype(at::kFloat));
    kept.kernels->taps({.x = x.const_data_ptr(),
                        .dy = dy.const_data_ptr(),
                        .shape = kept.shape,
                        .rows_per_thread = 0,
                        .parts = parts,
                        .sums = sums.mutable_data_ptr<float>()},
                       ElementOf(x));
    return sums.sum(0).t().contiguous().view({channels, 1, kernel, kernel}).to(kept.weight_type);
  }
};

using kernels::kDepthChannels;
using kernels::kImageChannels;
using kernels::kSquare;
using kernels::kSquareChannels;

kernels::SpaceToDepthArguments ArgumentsOf(const at::Tensor& images, int64_t kernel_size) {
  return {.from = nullptr,
          .to = nullptr,
          .images = images.size(0),
          .height = static_cast<int>(images.size(2)),
          .width = static_cast<int>(images.size(3)),
          .taps = static_cast<int>((kernel_size + 1) / kSquare)};
}

at::Tensor SquaresOf(const at::Tensor& images, int64_t kernel_size, const StemKernels& kernels) {
  kernels::SpaceToDepthArguments arguments = ArgumentsOf(images, kernel_size);
  at::Tensor squares = at::empty({arguments.images, kDepthChannels, arguments.Height(), arguments.Width()},
                                 images.options(), kChannelsLast);
  arguments.from = images.const_data_ptr();
  arguments.to = squares.mutable_data_ptr();
  kernels.space_to_depth(arguments, ElementOf(images));
  return squares;
}

at::Tensor Gradient(const at::Tensor& squares, const at::Tensor& dy, int parts, const StemKernels& kernels) {
  using namespace kernels;
  const at::Tensor partial = at::empty({parts, kStemWeights}, squares.options().dtype(at::kFloat));
  at::Tensor dweight =
      at::empty({kStemChannels, kDepthChannels, kStemTaps, kStemTaps}, squares.options(), kChannelsLast);
  kernels.gradient({.squares = squares.const_data_ptr(),
                    .dy = dy.const_data_ptr(),
                    .partial = partial.mutable_data_ptr<float>(),
                    .dweight = dweight.mutable_data_ptr(),
                    .images = dy.size(0),
                    .height = static_cast<int>(dy.size(2)),
                    .width = static_cast<int>(dy.size(3)),
                    .parts = parts},
                   ElementOf(squares));
  return dweight;
}

// The convolution of squares with a rearranged weight of a ResNet, (64, 16, 4, 4) in the same type.
struct ResNetStem : torch::autograd::Function<ResNetStem> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight, const at::Tensor& squares,
                            const StemKernels* kernels) {
    context->save_for_backward({squares});
    context->saved_data["kernels"] = reinterpret_cast<int64_t>(kernels);
    return at::conv2d(squares, weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto* kernels = reinterpret_cast<const StemKernels*>(context->saved_data["kernels"].toInt());
    const at::Tensor squares = context->get_saved_variables()[0];
    const at::Tensor dy = ForNormKernels(gradients[0].to(squares.scalar_type()));
    return {Gradient(squares, dy, kernels->gradient_parts(), *kernels), {}, {}};
  }
};

at::Tensor Rearranged(const at::Tensor& weight) {
  const int64_t taps = (weight.size(2) + 1) / kSquare;
  return at::constant_pad_nd(weight, {1, 0, 1, 0, 0, kSquareChannels - kImageChannels})
      .view({weight.size(0), kSquareChannels, taps, kSquare, taps, kSquare})
      .permute({0, 3, 5, 1, 2, 4})
      .reshape({weight.size(0), kDepthChannels, taps, taps});
}

// A convolution of images, which are not of the meta device. `bias` may be undefined.
struct Call {
  const Conv2dImpl& layer;
  const at::Tensor &x_NCHW, &bias;
  const Conv2dOptions& options = layer.options;
  const at::Tensor& weight = layer.weight;

  at::Tensor WithBias(const at::Tensor& y_NCHW) const {
    return bias.defined() ? y_NCHW + bias.view({-1, 1, 1}) : y_NCHW;
  }
  at::Tensor WithAten(const at::Tensor& padded_NCHW, int64_t padding) const {
    return at::conv2d(padded_NCHW, layer.GemmWeight(), bias, options.stride, padding, /*dilation=*/1, options.groups);
  }
};

at::Tensor PaddedAsTensorflow(const at::Tensor& x_NCHW, const Conv2dOptions& options) {
  std::vector<int64_t> padding;
  for (const int64_t size : {x_NCHW.size(3), x_NCHW.size(2)}) {
    const int64_t outputs = (size + options.stride - 1) / options.stride;
    const int64_t all = std::max<int64_t>(0, (outputs - 1) * options.stride + options.kernel_size - size);
    padding.insert(padding.end(), {all / 2, all - all / 2});
  }
  return at::constant_pad_nd(x_NCHW, padding);
}

bool IsPlainProduct(const Call& c) {
  return c.options.kernel_size == 1 && c.options.stride == 1 && c.options.groups == 1 && c.layer.padding() == 0 &&
         c.x_NCHW.is_contiguous(kChannelsLast) && UsesOneDnnProduct(c.x_NCHW, c.weight);
}

bool CutsImages(const Call& c) {
  const auto is_cut = [&](int64_t size) { return size % c.options.stride == 0; };
  return c.options.stride == c.options.kernel_size && c.layer.padding() == 0 && c.options.groups == 1 &&
         c.options.in_channels <= 3 && !c.x_NCHW.is_cpu() && is_cut(c.x_NCHW.size(2)) && is_cut(c.x_NCHW.size(3));
}

// The ways to convolve. The first that fits is taken.
constexpr struct {
  bool (*fits)(const Call& c);
  at::Tensor (*convolve)(const Call& c);
} kWays[] = {
    // With TensorFlow's padding, which may be uneven.
    {[](const Call& c) { return c.options.pads_as_tensorflow && c.options.stride > 1; },
     [](const Call& c) { return c.WithAten(PaddedAsTensorflow(c.x_NCHW, c.options), /*padding=*/0); }},
    // Depthwise: in training steps by a device's kernels, and on a CPU.
    {[](const Call& c) {
       return c.layer.is_depthwise() && c.layer.is_training() && c.layer.kernels().depthwise != nullptr &&
              HasDeviceDepthwiseKernel(c.x_NCHW, c.weight, c.options.stride);
     },
     [](const Call& c) {
       return c.WithBias(DepthwiseConvolution(c.x_NCHW, c.weight, c.options.stride, *c.layer.kernels().depthwise));
     }},
    {[](const Call& c) { return c.layer.is_depthwise() && HasDepthwiseKernel(c.x_NCHW, c.weight, c.options.stride); },
     [](const Call& c) { return c.WithBias(DepthwiseConvolution(c.x_NCHW, c.weight, c.options.stride)); }},
    // The first of a network.
    {[](const Call& c) {
       return c.layer.kernels().stem != nullptr && !c.bias.defined() &&
              HasStemConvolution(c.x_NCHW, c.options.kernel_size, c.options.stride);
     },
     [](const Call& c) { return StemConvolution(c.x_NCHW, c.weight, *c.layer.kernels().stem); }},
    // As products.
    {IsPlainProduct,
     [](const Call& c) {
       return Product(c.x_NCHW.permute({0, 2, 3, 1}), c.weight.flatten(1), c.bias).permute({0, 3, 1, 2});
     }},
    {CutsImages, [](const Call& c) { return ConvolvePatches(c.x_NCHW, c.layer.GemmWeight(), c.bias); }},
    {[](const Call&) { return true; }, [](const Call& c) { return c.WithAten(c.x_NCHW, c.layer.padding()); }},
};

}  // namespace

Conv2dImpl::Conv2dImpl(const Conv2dOptions& conv_options) : options(conv_options) {
  weight = register_parameter("weight", at::empty({options.out_channels, options.in_channels / options.groups,
                                                   options.kernel_size, options.kernel_size},
                                                  DeviceOfNewWeights()));
  if (options.bias) bias = register_parameter("bias", at::empty(options.out_channels, DeviceOfNewWeights()));
}

at::Tensor Conv2dImpl::Convolved(const at::Tensor& x_NCHW, const at::Tensor& added_bias) const {
  if (x_NCHW.dim() == 2) return Product(x_NCHW, GemmWeight().flatten(1), added_bias);
  if (x_NCHW.is_meta()) return ShapeOfConvolved(x_NCHW);
  const Call call{*this, x_NCHW, added_bias};
  return std::ranges::find_if(kWays, [&call](const auto& way) { return way.fits(call); })->convolve(call);
}

// Of a depthwise convolution and of the gradients of its input and weights, which move tensors and do little else.
at::Tensor Conv2dImpl::ShapeOfConvolved(const at::Tensor& x_NCHW) const {
  constexpr double kDepthwiseMoves = 3;
  const auto out = [&](int64_t size) { return (size + 2 * padding() - options.kernel_size) / options.stride + 1; };
  const at::Tensor y_NCHW =
      at::empty({x_NCHW.size(0), options.out_channels, out(x_NCHW.size(2)), out(x_NCHW.size(3))}, x_NCHW.options());
  const double moves = is_depthwise() ? kDepthwiseMoves : 0;
  CountForward({.multiply_adds = y_NCHW.numel() * weight[0].numel(),
                .activation_elements = y_NCHW.numel(),
                .moved_elements = moves * static_cast<double>(x_NCHW.numel() + y_NCHW.numel())});
  return y_NCHW;
}

at::Tensor ConvolvePatches(const at::Tensor& x_NCHW, const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t side = weight.size(2), rows = x_NCHW.size(2) / side, columns = x_NCHW.size(3) / side;
  const at::Tensor patches = x_NCHW.permute({0, 2, 3, 1})
                                 .reshape({-1, rows, side, columns, side, x_NCHW.size(1)})
                                 .transpose(2, 3)
                                 .reshape({-1, rows, columns, weight[0].numel()});
  return Product(patches, weight.permute({0, 2, 3, 1}).flatten(1), bias).permute({0, 3, 1, 2});
}

bool HasDepthwiseKernel(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride) {
  constexpr int64_t kLargeMap = 16;  // pixels a side
  const int64_t kernel = weight_C1kk.size(2);
  const bool is_known = kernel == 5 || kernel == 7 || (kernel == 3 && (stride > 1 || x_NCHW.size(3) <= kLargeMap));
  const bool is_plain = x_NCHW.is_cpu() && x_NCHW.scalar_type() == at::kFloat && weight_C1kk.is_cpu() &&
                        weight_C1kk.scalar_type() == at::kFloat;
  return is_plain && is_known && !at::autocast::is_autocast_enabled(at::kCPU) && x_NCHW.is_contiguous(kChannelsLast);
}

at::Tensor DepthwiseConvolution(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride) {
  return Depthwise::apply(x_NCHW, weight_C1kk, stride);
}

bool HasDeviceDepthwiseKernel(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride) {
  const at::ScalarType type = x_NCHW.scalar_type();
  const auto device = x_NCHW.device().type();
  const bool casts = at::autocast::is_autocast_enabled(device) && at::autocast::get_autocast_dtype(device) == type;
  const int64_t kernel = weight_C1kk.size(2);
  return (type == at::kHalf || type == at::kBFloat16) && (casts || weight_C1kk.scalar_type() == type) &&
         (((kernel == 3 || kernel == 5) && (stride == 1 || stride == 2)) || (kernel == 7 && stride == 1)) &&
         HasNormKernels(x_NCHW) && x_NCHW.numel() <= INT32_MAX;
}

at::Tensor DepthwiseConvolution(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride,
                                const DepthwiseKernels& kernels) {
  const auto kept = c10::make_intrusive<DeviceConvolution>();
  kept->kernels = &kernels;
  kept->shape = DeviceShapeOf(x_NCHW, weight_C1kk, stride);
  kept->weight_type = weight_C1kk.scalar_type();
  return DepthwiseOnDevice::apply(x_NCHW, weight_C1kk, kept);
}

bool HasStemConvolution(const at::Tensor& images_N3HW, int64_t kernel_size, int64_t stride) {
  const bool half = images_N3HW.scalar_type() == at::kHalf || images_N3HW.scalar_type() == at::kBFloat16;
  return half && images_N3HW.dim() == 4 && images_N3HW.size(1) == kImageChannels && images_N3HW.numel() > 0 &&
         images_N3HW.suggest_memory_format() == kChannelsLast && !images_N3HW.requires_grad() && stride == kSquare &&
         kernel_size % 4 == 3 && ArgumentsOf(images_N3HW, kernel_size).Threads() <= INT32_MAX;
}

at::Tensor StemConvolution(const at::Tensor& images_N3HW, const at::Tensor& weight, const StemKernels& kernels) {
  const at::Tensor images = images_N3HW.contiguous(kChannelsLast);
  const at::Tensor squares = SquaresOf(images, weight.size(2), kernels);
  const at::Tensor rearranged = Rearranged(weight).to(images.scalar_type()).contiguous(kChannelsLast);
  const bool is_of_resnet = weight.size(0) == kernels::kStemChannels && rearranged.size(2) == kernels::kStemTaps;
  if (!is_of_resnet || kernels.gradient_parts() == 0) return at::conv2d(squares, rearranged);
  return ResNetStem::apply(rearranged, squares, &kernels);
}

}  // namespace dtrain::models
