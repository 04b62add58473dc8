// Runs the kernel's threads on the CPU and compares the convolution with ATen's.
#include "models/stem_convolution.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include "tests/models/convolution_comparison.h"
#include "tests/models/norm_stand_in.h"

namespace dtrain::models {
namespace {

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
