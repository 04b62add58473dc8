// Convolutions, by the fastest way that there is for one: LibTorch's, or, where those are slow, one of ours. ATen's
// gradients of depthwise convolutions (each channel has a filter of its own) take as long on a CPU as those of dense
// ones with many times the products, and cuDNN's several times as long as moving the tensors; cuDNN's kernels for the
// three channels of images take several times as long as those for sixteen, or as a product.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>

#include "models/device_kernels.h"
#include "models/half_weights.h"

namespace dtrain::models {

struct Conv2dOptions {
  int64_t in_channels;
  int64_t out_channels;
  int64_t kernel_size;
  int64_t stride = 1;
  int64_t groups = 1;
  bool bias = false;
  // TensorFlow's "same" padding: where the stride leaves part of ⌊k/2⌋ unread, the rest is at the right and the bottom.
  bool pads_as_tensorflow = false;
  std::optional<int64_t> padding = {};  // empty: ⌊k/2⌋
};

// Convolution with a square kernel. `weight` (out, in / groups, k, k) and the optional `bias` (out)
// are uninitialised. A 1×1 convolution also takes single pixels without their sizes, (N, C), and then is a product.
class Conv2dImpl : public torch::nn::Module, public HalfWeightUser, public KernelUser {
 public:
  explicit Conv2dImpl(const Conv2dOptions& options);
  at::Tensor forward(const at::Tensor& x_NCHW) { return Convolved(x_NCHW, bias); }
  // Who adds the bias with something else leaves it out here.
  at::Tensor WithoutBias(const at::Tensor& x_NCHW) const { return Convolved(x_NCHW, {}); }
  void UseHalfWeights(HalfWeights& copies) override { half_weight_ = copies.CopyOf({weight}); }

  // Returns what a product multiplies by: the weight, or its copy.
  at::Tensor GemmWeight() const { return ForProducts(*this, half_weight_, weight); }

  void UseKernels(const DeviceKernels& kernels) override { kernels_ = kernels; }
  const DeviceKernels& kernels() const { return kernels_; }

  int64_t padding() const { return options.padding.value_or(options.kernel_size / 2); }
  bool is_depthwise() const { return options.groups == options.in_channels && options.groups == options.out_channels; }

  const Conv2dOptions options;
  at::Tensor weight, bias;

 private:
  at::Tensor Convolved(const at::Tensor& x_NCHW, const at::Tensor& added_bias) const;
  at::Tensor ShapeOfConvolved(const at::Tensor& x_NCHW) const;

  DeviceKernels kernels_;
  HalfWeight half_weight_;
};
TORCH_MODULE(Conv2d);

// The following are the ways of our own, among which Conv2d chooses.

// at::conv2d of patches that do not overlap: the stride is the side of the filters (out, in, side, side), and the sides
// of x are multiples of it. It is a product; cuDNN takes ten times as long for the three channels of images.
at::Tensor ConvolvePatches(const at::Tensor& x_NCHW, const at::Tensor& weight, const at::Tensor& bias);

// Returns whether DepthwiseConvolution supports the tensors and is faster than ATen: float32 on the CPU without
// autocast, x channels_last, and not a 3×3 filter at stride 1 on a map wider than 16 pixels.
bool HasDepthwiseKernel(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

// at::conv2d without bias, padded by ⌊k/2⌋, with as many groups as channels. The forward pass is ATen's, bit for bit.
// Gradients are the same for any number of threads.
at::Tensor DepthwiseConvolution(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

// Returns whether a device's kernels support the tensors: x of a half type, channels last, a multiple of eight
// channels; filters of 3×3 or 5×5 at stride 1 or 2, or of 7×7 at stride 1, of the same type or cast by autocast.
bool HasDeviceDepthwiseKernel(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride);

// The same convolution by a device's kernels, which live until the backward pass, with sums in float32. The result has
// x's type, the weight's gradient the weight's. Sums are added in the same order every time.
at::Tensor DepthwiseConvolution(const at::Tensor& x_NCHW, const at::Tensor& weight_C1kk, int64_t stride,
                                const DepthwiseKernels& kernels);

// Returns whether StemConvolution supports these: images of a half type, channels last, that need no gradient; stride
// 2; a kernel of 3, 7, 11, … pixels.
bool HasStemConvolution(const at::Tensor& images_N3HW, int64_t kernel_size, int64_t stride);

// Returns conv2d(images, weight) with stride 2 and padding ⌊k/2⌋. Differentiable in the weight (out, 3, k, k).
// `kernels` live until the backward pass.
at::Tensor StemConvolution(const at::Tensor& images_N3HW, const at::Tensor& weight, const StemKernels& kernels);

}  // namespace dtrain::models
