#include "models/norm_relu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace dtrain::models {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

kernels::Element ElementOf(const at::Tensor& x) {
  if (x.scalar_type() == at::kHalf) return kernels::Element::kHalf;
  return x.scalar_type() == at::kBFloat16 ? kernels::Element::kBFloat16 : kernels::Element::kFloat;
}

int64_t RowsOf(const at::Tensor& x_NCHW) { return x_NCHW.numel() / x_NCHW.size(1); }

struct Function : torch::autograd::Function<Function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& z, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& mean, const at::Tensor& inverse_std, const NormReluDevice* device) {
    at::Tensor y = at::empty_like(x);
    at::Tensor mask = at::empty({x.numel() / kernels::kWidth}, x.options().dtype(at::kByte));
    device->forward({.x = x.const_data_ptr(),
                     .z = z ? z->const_data_ptr() : nullptr,
                     .y = y.mutable_data_ptr(),
                     .mask = mask.mutable_data_ptr<uint8_t>(),
                     .mean = mean.const_data_ptr<float>(),
                     .inverse_std = inverse_std.const_data_ptr<float>(),
                     .weight = weight.const_data_ptr<float>(),
                     .bias = bias.const_data_ptr<float>(),
                     .rows = RowsOf(x),
                     .channels = x.size(1)},
                    ElementOf(x));
    context->save_for_backward({x, mask, weight, mean, inverse_std});
    context->saved_data["device"] = reinterpret_cast<int64_t>(device);
    context->saved_data["adds"] = z.has_value();
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &mask = saved[1], &weight = saved[2], &mean = saved[3], &inverse_std = saved[4];
    const auto& device = *reinterpret_cast<const NormReluDevice*>(context->saved_data["device"].toInt());
    const int64_t rows = RowsOf(x), channels = x.size(1);
    const kernels::Element element = ElementOf(x);
    const at::Tensor dy = gradients[0].to(x.scalar_type()).contiguous(kChannelsLast);
    at::Tensor dx = at::empty_like(x), dz;
    if (context->saved_data["adds"].toBool()) dz = at::empty_like(x);
    kernels::BackwardArguments arguments{.dy = dy.const_data_ptr(),
                                         .x = x.const_data_ptr(),
                                         .mask = mask.const_data_ptr<uint8_t>(),
                                         .mean = mean.const_data_ptr<float>(),
                                         .inverse_std = inverse_std.const_data_ptr<float>(),
                                         .weight = weight.const_data_ptr<float>(),
                                         .rows = rows,
                                         .channels = channels,
                                         .sums = nullptr,
                                         .dx = dx.mutable_data_ptr(),
                                         .dz = dz.defined() ? dz.mutable_data_ptr() : nullptr};
    at::Tensor partial = at::empty({device.num_partial_sums(rows, channels), 2, channels}, mean.options());
    device.sum(arguments, element, partial.mutable_data_ptr<float>());
    const at::Tensor sums = partial.sum(0);
    arguments.sums = sums.const_data_ptr<float>();
    device.backward(arguments, element);
    return {dx, dz, sums[1] * inverse_std, sums[0], {}, {}, {}};
  }
};

}  // namespace

bool CanNormRelu(const at::Tensor& x_NCHW) {
  const at::ScalarType type = x_NCHW.scalar_type();
  const bool known = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  return known && x_NCHW.dim() == 4 && x_NCHW.size(1) % kernels::kWidth == 0 && x_NCHW.numel() > 0;
}

at::Tensor NormRelu(const NormReluDevice& device, const at::Tensor& x_NCHW, const at::Tensor& z_NCHW,
                    const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                    const at::Tensor& inverse_std) {
  std::optional<at::Tensor> z;
  if (z_NCHW.defined()) z = z_NCHW.to(x_NCHW.scalar_type()).contiguous(kChannelsLast);
  return Function::apply(x_NCHW.contiguous(kChannelsLast), z, weight, bias, mean, inverse_std, &device);
}

}  // namespace dtrain::models
