// The work is cut into tasks, each for a group of channels of some samples. A task's result does not depend on its
// thread.
#include "models/depthwise_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "models/element_of.h"
#include "models/norm_kernels.h"
#include "models/vector_kernels.h"

namespace dtrain::models {
namespace {

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
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            int64_t stride) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    return at::conv2d(x, weight, /*bias=*/{}, stride, weight.size(2) / 2, /*dilation=*/1, /*groups=*/x.size(1));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
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
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x_NCHW,
                            const at::Tensor& weight, const c10::intrusive_ptr<DeviceConvolution>& kept) {
    const at::Tensor x = ForNormKernels(x_NCHW), filters = weight.flatten(1);
    const at::Tensor taps = at::empty({filters.size(1), filters.size(0)}, x.options()).copy_(filters.t());
    context->save_for_backward({x, taps});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    at::Tensor y =
        at::empty({x.size(0), x.size(1), kept->shape.out_height, kept->shape.out_width}, x.options(), kChannelsLast);
    Convolve(*kept, x, taps, y, /*backward=*/false);
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
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

}  // namespace

bool HasDepthwiseKernel(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride) {
  constexpr int64_t kLargeMap = 16;  // pixels a side
  const int64_t kernel = weight_C1kk.size(2);
  const bool is_known = kernel == 5 || kernel == 7 || (kernel == 3 && (stride > 1 || x_NCHW.size(3) <= kLargeMap));
  const bool is_plain = x_NCHW.is_cpu() && x_NCHW.scalar_type() == at::kFloat && weight_C1kk.is_cpu() &&
                        weight_C1kk.scalar_type() == at::kFloat;
  return is_plain && is_known && !at::autocast::is_autocast_enabled(at::kCPU) &&
         x_NCHW.size(1) % kDepthwiseLanes == 0 && x_NCHW.is_contiguous(kChannelsLast);
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

}  // namespace dtrain::models
