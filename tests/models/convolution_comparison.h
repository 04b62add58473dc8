// Compares the kernels of depthwise convolutions and of the first one, a device's or their stand-ins on the CPU, with
// ATen.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "models/convolution.h"
#include "tests/models/norm_comparison.h"

namespace dtrain::models {

struct DepthwiseCase {
  int64_t samples, channels, height, width, kernel, stride;
};

// Maps smaller than a filter, and such that are no multiple of a strip.
inline std::vector<DepthwiseCase> DeviceDepthwiseCases() {
  std::vector<DepthwiseCase> cases;
  for (const int64_t kernel : {3, 5, 7}) {
    for (const int64_t stride : {1, 2}) {
      if (kernel == 7 && stride == 2) continue;
      cases.push_back({1, 8, 1, 1, kernel, stride});
      cases.push_back({2, 16, 2, 3, kernel, stride});
      cases.push_back({3, 24, 7, 7, kernel, stride});
      cases.push_back({2, 40, 9, 8, kernel, stride});
      cases.push_back({1, 8, 17, 16, kernel, stride});
      cases.push_back({11, 72, 5, 13, kernel, stride});
    }
  }
  return cases;
}

template <typename Convolve>
void CompareDepthwise(const DepthwiseCase& c, at::ScalarType type, at::Device device, const Convolve& convolve) {
  SCOPED_TRACE(testing::Message() << type << " " << c.samples << "x" << c.channels << "x" << c.height << "x" << c.width
                                  << " k" << c.kernel << " s" << c.stride);
  const at::Tensor x =
      at::randn({c.samples, c.channels, c.height, c.width}).contiguous(kLast).to(type).to(device).requires_grad_();
  // As under autocast: the kernels round a float32 weight, and its gradient is float32.
  const at::Tensor rounded = at::randn({c.channels, 1, c.kernel, c.kernel}).to(type);
  const at::Tensor weight = rounded.to(at::kFloat).to(device).requires_grad_();
  const at::Tensor x64 = Exactly(x), weight64 = Exactly(weight);
  const at::Tensor y = convolve(x, weight);
  const at::Tensor y64 = at::conv2d(x64, weight64, {}, c.stride, c.kernel / 2, 1, c.channels);
  ASSERT_EQ(y.sizes(), y64.sizes());
  EXPECT_EQ(y.scalar_type(), type);
  EXPECT_TRUE(y.is_contiguous(kLast));
  const double rounding = type == at::kFloat ? 1e-6 : type == at::kHalf ? 1e-3 : 8e-3;
  EXPECT_LE(Distance(y.detach(), y64.detach()), rounding);
  const at::Tensor dy = at::randn(y64.sizes()).to(type).contiguous(kLast).to(device);
  y.backward(dy);
  y64.backward(dy.cpu().to(at::kDouble));
  EXPECT_LE(Distance(x.grad(), x64.grad()), rounding);
  EXPECT_LE(Distance(weight.grad(), weight64.grad()), 1e-5);  // sums of exact products
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
}

inline void CompareDepthwise(const DepthwiseCase& c, at::ScalarType type, const DepthwiseKernels& kernels,
                             at::Device device) {
  CompareDepthwise(c, type, device, [&](const at::Tensor& x, const at::Tensor& weight) {
    return DepthwiseConvolution(x, weight, c.stride, kernels);
  });
}

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
  const at::Tensor images = WholeNumbers({c.images, 3, c.height, c.width}).to(type).contiguous(kLast);
  const at::Tensor exact = WholeNumbers({c.channels, 3, c.kernel_size, c.kernel_size}).requires_grad_();
  const at::Tensor weight = exact.detach().to(device).requires_grad_();
  ASSERT_TRUE(HasStemConvolution(images, c.kernel_size, 2));
  const at::Tensor y = StemConvolution(images.to(device), weight, kernels);
  const at::Tensor wanted = at::conv2d(images.to(at::kFloat), exact, {}, 2, c.kernel_size / 2);
  ASSERT_EQ(y.sizes(), wanted.sizes());
  EXPECT_TRUE(at::equal(y.cpu(), wanted.to(type)));
  const at::Tensor dy = WholeNumbers(y.sizes());
  y.backward(dy.to(type).to(device).contiguous(kLast));
  wanted.backward(dy);
  EXPECT_TRUE(at::equal(weight.grad().cpu(), exact.grad().to(type).to(at::kFloat)));
}

}  // namespace dtrain::models
