// The first convolution of an image model on a device that has a kernel for space-to-depth (kernels/stem.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/kernels/stem.h"

namespace dtrain::models {

// The kernels of a device, on its current stream. They throw if they cannot be started.
struct StemKernels {
  void (*space_to_depth)(const kernels::SpaceToDepthArguments& arguments, kernels::Element element);
  int (*gradient_parts)();  // StemGradientArguments::parts; 0: there is no kernel for the gradient
  void (*gradient)(const kernels::StemGradientArguments& arguments, kernels::Element element);
};

// Returns whether StemConvolution supports these: images of a half type, channels last, that need no gradient; stride
// 2; a kernel of 3, 7, 11, … pixels.
bool HasStemConvolution(const at::Tensor& images_N3HW, int64_t kernel_size, int64_t stride);

// Returns conv2d(images, weight) with stride 2 and padding ⌊k/2⌋. Differentiable in the weight (out, 3, k, k).
// `kernels` live until the backward pass.
at::Tensor StemConvolution(const at::Tensor& images_N3HW, const at::Tensor& weight, const StemKernels& kernels);

}  // namespace dtrain::models
