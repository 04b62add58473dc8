// Convolutions of our own, and the threads of their kernels run on the CPU, are compared with ATen's.
#include "models/convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "tests/models/convolution_comparison.h"
#include "tests/models/depthwise_stand_in.h"
#include "tests/models/norm_stand_in.h"

namespace dtrain::models {
namespace {

TEST(DepthwiseConvolution, GradientsAreATens) {
  at::manual_seed(1);
  for (const DepthwiseCase& c : {DepthwiseCase{1, 8, 1, 1, 3, 1},
                                 {2, 16, 5, 7, 3, 1},
                                 {9, 40, 6, 6, 5, 1},
                                 {3, 24, 7, 4, 5, 2},
                                 {17, 32, 8, 8, 3, 2},
                                 {2, 97, 3, 3, 5, 1},
                                 {1, 136, 2, 9, 7, 3}}) {
    CompareDepthwise(c, at::kFloat, at::kCPU, [&](const at::Tensor& x, const at::Tensor& weight) {
      EXPECT_TRUE(HasDepthwiseKernel(x, weight, c.stride));
      const at::Tensor y = DepthwiseConvolution(x, weight, c.stride);
      EXPECT_TRUE(at::equal(y, at::conv2d(x, weight, {}, c.stride, c.kernel / 2, 1, c.channels)));
      return y;
    });
  }
}

TEST(DepthwiseConvolution, GradientsDoNotDependOnThreads) {
  const at::Tensor x = at::randn({19, 40, 6, 5}).contiguous(kLast).requires_grad_();
  const at::Tensor weight = at::randn({40, 1, 5, 5}).requires_grad_(), dy = at::randn({19, 40, 6, 5});
  const int threads = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> gradients;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    gradients.push_back(
        torch::autograd::grad({DepthwiseConvolution(x, weight, /*stride=*/1)}, {x, weight}, {dy.contiguous(kLast)}));
  }
  at::set_num_threads(threads);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(gradients[0][i].equal(gradients[1][i])) << i;
}

TEST(DepthwiseConvolution, LeavesToATenWhatIsNotForIt) {
  const at::Tensor weight = at::randn({8, 1, 3, 3});
  const auto last = [](const at::Tensor& x) { return x.contiguous(kLast); };
  EXPECT_TRUE(HasDepthwiseKernel(last(at::randn({2, 8, 4, 4})), weight, 1));
  EXPECT_FALSE(HasDepthwiseKernel(at::randn({2, 8, 4, 4}), weight, 1));
  EXPECT_FALSE(HasDepthwiseKernel(last(at::randn({2, 8, 4, 4})).to(at::kBFloat16), weight, 1));
  EXPECT_FALSE(HasDepthwiseKernel(last(at::randn({2, 8, 20, 20})), weight, 1));
  EXPECT_TRUE(HasDepthwiseKernel(last(at::randn({2, 8, 20, 20})), weight, 2));
}

TEST(DepthwiseConvolution, ADevicesKernelsAreAsExactAsTheirType) {
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const int rows : {2, 100}) {
      if (rows == 2 && type != at::kFloat) continue;  // the same but for rounding
      stand_in::depthwise_rows = rows;
      stand_in::depthwise_parts = rows == 2 ? 3 : 1;
      for (const DepthwiseCase& c : DeviceDepthwiseCases()) {
        CompareDepthwise(c, type, stand_in::kDepthwiseKernels, at::kCPU);
      }
    }
  }
}

TEST(DepthwiseConvolution, ADevicesKernelsShowANaN) {
  for (const int64_t stride : {1, 2}) {
    at::Tensor x = at::randn({2, 8, 9, 9}).contiguous(kLast);
    const at::Tensor weight = at::randn({8, 1, 3, 3}).requires_grad_();
    x[1][3][4][4] = std::numeric_limits<float>::quiet_NaN();
    const at::Tensor y = DepthwiseConvolution(x.requires_grad_(), weight, stride, stand_in::kDepthwiseKernels);
    EXPECT_TRUE(at::equal(y.isnan(), at::conv2d(x, weight, {}, stride, 1, 1, 8).isnan()));
    at::Tensor dy = at::ones_like(y);
    dy[0][5][1][1] = std::numeric_limits<float>::infinity();
    y.backward(dy);
    EXPECT_FALSE(x.grad()[0][5].isfinite().all().item<bool>());
    EXPECT_FALSE(weight.grad()[3].isfinite().all().item<bool>());
    EXPECT_FALSE(weight.grad()[5].isfinite().all().item<bool>());
    EXPECT_TRUE(weight.grad()[4].isfinite().all().item<bool>());
  }
}

TEST(DepthwiseConvolution, ADevicesKernelsTakeWhatTheyCan) {
  const auto x = [](int64_t channels, at::ScalarType type) {
    return at::randn({2, channels, 4, 4}).to(type).contiguous(kLast);
  };
  const auto weight = [](int64_t kernel, at::ScalarType type) { return at::randn({8, 1, kernel, kernel}).to(type); };
  EXPECT_TRUE(HasDeviceDepthwiseKernel(x(8, at::kHalf), weight(3, at::kHalf), 1));
  EXPECT_TRUE(HasDeviceDepthwiseKernel(x(8, at::kBFloat16), weight(5, at::kBFloat16), 2));
  EXPECT_FALSE(HasDeviceDepthwiseKernel(x(8, at::kFloat), weight(3, at::kFloat), 1));
  EXPECT_FALSE(HasDeviceDepthwiseKernel(x(8, at::kHalf), weight(3, at::kFloat), 1));  // without autocast
  EXPECT_TRUE(HasDeviceDepthwiseKernel(x(8, at::kHalf), weight(7, at::kHalf), 1));
  EXPECT_FALSE(HasDeviceDepthwiseKernel(x(8, at::kHalf), weight(7, at::kHalf), 2));
  EXPECT_FALSE(HasDeviceDepthwiseKernel(x(8, at::kHalf), weight(9, at::kHalf), 1));
  EXPECT_FALSE(HasDeviceDepthwiseKernel(x(8, at::kHalf), weight(3, at::kHalf), 3));
  EXPECT_FALSE(HasDeviceDepthwiseKernel(x(12, at::kHalf), weight(3, at::kHalf), 1));
  EXPECT_FALSE(HasDeviceDepthwiseKernel(x(8, at::kHalf).contiguous(), weight(3, at::kHalf), 1));
}

void RunThreads(const kernels::SpaceToDepthArguments& arguments, kernels::Element element) {
  stand_in::ForElement(element, [&](auto type) {
    for (int64_t thread = 0; thread < arguments.Threads() + 3; ++thread) {
      kernels::SpaceToDepthThread<decltype(type)>(arguments, thread);
    }
  });
}

// The gradient's kernel computes what this says, and is tested on GPUs.
void FindGradient(const kernels::StemGradientArguments& arguments, kernels::Element element) {
  stand_in::ForElement(element, [&](auto type) {
    using T = decltype(type);
    const auto* const squares = static_cast<const T*>(arguments.squares);
    const auto* const dy = static_cast<const T*>(arguments.dy);
    constexpr int kTaps = kernels::kStemTaps, kDepth = kernels::kDepthChannels, kOut = kernels::kStemChannels;
    for (int weight = 0; weight < kernels::kStemWeights; ++weight) {
      const int channel = weight % kDepth, tap = weight / kDepth % (kTaps * kTaps),
                out = weight / kDepth / kTaps / kTaps;
      float sum = 0;
      for (int64_t row = 0; row < arguments.images * arguments.height; ++row) {
        const int64_t image = row / arguments.height, line = row % arguments.height + tap / kTaps;
        for (int column = 0; column < arguments.width; ++column) {
          const int64_t square =
              (image * (arguments.height + kTaps - 1) + line) * (arguments.width + kTaps - 1) + column + tap % kTaps;
          sum += static_cast<float>(dy[(row * arguments.width + column) * kOut + out]) *
                 static_cast<float>(squares[square * kDepth + channel]);
        }
      }
      static_cast<T*>(arguments.dweight)[weight] = static_cast<T>(sum);
    }
  });
}

constexpr StemKernels kKernels = {
    .space_to_depth = &RunThreads, .gradient_parts = [] { return 1; }, .gradient = &FindGradient};

at::Tensor Images(int64_t height, int64_t width, at::ScalarType type) {
  return at::randn({2, 3, height, width}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(StemConvolution, IsTheConvolution) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    Compare({2, 8, 8, 8, 3}, type, kKernels, at::kCPU);
    Compare({2, 9, 7, 8, 7}, type, kKernels, at::kCPU);
    Compare({1, 1, 12, 64, 7}, type, kKernels, at::kCPU);
    Compare({2, 16, 14, 64, 7}, type, kKernels, at::kCPU);
  }
}

TEST(StemConvolution, LeavesTheOthersToAten) {
  EXPECT_FALSE(HasStemConvolution(Images(8, 8, at::kFloat), 7, 2));
  EXPECT_FALSE(HasStemConvolution(Images(8, 8, at::kHalf), 5, 2));
  EXPECT_FALSE(HasStemConvolution(Images(8, 8, at::kHalf), 7, 1));
  EXPECT_FALSE(HasStemConvolution(Images(8, 8, at::kHalf).contiguous(), 7, 2));
  EXPECT_FALSE(HasStemConvolution(Images(8, 8, at::kHalf).requires_grad_(), 7, 2));
  EXPECT_FALSE(HasStemConvolution(Images(8, 8, at::kHalf).slice(1, 0, 1), 7, 2));
}

}  // namespace
}  // namespace dtrain::models
