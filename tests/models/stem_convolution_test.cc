// Runs the kernel's threads on the CPU and compares the convolution with ATen's.
#include "models/stem_convolution.h"

#include <ATen/ATen.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

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

at::Tensor Images(int64_t height, int64_t width, at::ScalarType type) {
  return at::randn({2, 3, height, width}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
}

// In small whole numbers, which all types represent and add exactly.
at::Tensor WholeNumbers(at::IntArrayRef sizes) { return at::randint(-2, 3, sizes, at::TensorOptions(at::kFloat)); }

TEST(StemConvolution, IsTheConvolution) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const int64_t kernel_size : {3, 7}) {
      for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{{8, 8}, {9, 7}, {1, 12}, {32, 30}}) {
        const at::Tensor images =
            WholeNumbers({2, 3, height, width}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
        const at::Tensor weight = WholeNumbers({8, 3, kernel_size, kernel_size}).to(type).requires_grad_();
        const at::Tensor exact = weight.detach().to(at::kFloat).requires_grad_();
        ASSERT_TRUE(HasStemConvolution(images, kernel_size, 2));
        const at::Tensor y = StemConvolution(images, weight, &RunThreads);
        const at::Tensor wanted = at::conv2d(images.to(at::kFloat), exact, {}, 2, kernel_size / 2);
        ASSERT_EQ(y.sizes(), wanted.sizes());
        EXPECT_TRUE(at::equal(y.to(at::kFloat), wanted.to(type).to(at::kFloat))) << type << kernel_size << height;
        const at::Tensor dy = WholeNumbers(y.sizes());
        y.backward(dy.to(type));
        wanted.backward(dy);
        EXPECT_TRUE(at::allclose(weight.grad().to(at::kFloat), exact.grad(), 1e-2)) << type << kernel_size << height;
      }
    }
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
