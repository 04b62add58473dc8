// Compares the first convolution's kernels, a device's or their stand-ins on the CPU, with ATen.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "models/stem_convolution.h"

namespace dtrain::models {

struct StemCase {
  int64_t images, height, width, channels, kernel_size;
};

// Returns small whole numbers, which all types represent.
inline at::Tensor WholeNumbers(at::IntArrayRef sizes) {
  return at::randint(-2, 3, sizes, at::TensorOptions(at::kFloat));
}

// The values are exact but for their last rounding to `type`.
inline void Compare(const StemCase& c, at::ScalarType type, const StemKernels& kernels, at::Device device) {
  SCOPED_TRACE(testing::Message() << type << " " << c.images << "x" << c.height << "x" << c.width << " kernel "
                                  << c.kernel_size << " channels " << c.channels);
  constexpr auto kFormat = at::MemoryFormat::ChannelsLast;
  const at::Tensor images = WholeNumbers({c.images, 3, c.height, c.width}).to(type).contiguous(kFormat);
  const at::Tensor exact = WholeNumbers({c.channels, 3, c.kernel_size, c.kernel_size}).requires_grad_();
  const at::Tensor weight = exact.detach().to(device).requires_grad_();
  ASSERT_TRUE(HasStemConvolution(images, c.kernel_size, 2));
  const at::Tensor y = StemConvolution(images.to(device), weight, kernels);
  const at::Tensor wanted = at::conv2d(images.to(at::kFloat), exact, {}, 2, c.kernel_size / 2);
  ASSERT_EQ(y.sizes(), wanted.sizes());
  EXPECT_TRUE(at::equal(y.cpu(), wanted.to(type)));
  const at::Tensor dy = WholeNumbers(y.sizes());
  y.backward(dy.to(type).to(device).contiguous(kFormat));
  wanted.backward(dy);
  EXPECT_TRUE(at::equal(weight.grad().cpu(), exact.grad().to(type).to(at::kFloat)));
}

}  // namespace dtrain::models
