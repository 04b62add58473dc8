#include "models/depthwise_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace dtrain::models {
namespace {

struct DepthwiseCase {
  int64_t samples, channels, height, width, kernel, stride;
};

struct DepthwiseGradients {
  at::Tensor y, x, weight;
};

template <typename Convolve>
DepthwiseGradients GradientsOf(const DepthwiseCase& c, const Convolve& convolve) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({c.samples, c.channels, c.height, c.width})
                           .contiguous(at::MemoryFormat::ChannelsLast)
                           .requires_grad_(true);
  const at::Tensor weight = at::randn({c.channels, 1, c.kernel, c.kernel}).requires_grad_(true);
  const at::Tensor y = convolve(x, weight);
  y.backward(at::randn_like(y));
  return {y.detach(), x.grad(), weight.grad()};
}

TEST(DepthwiseConvolution, GradientsAreATens) {
  for (const DepthwiseCase& c : {DepthwiseCase{1, 8, 1, 1, 3, 1},
                                 {2, 16, 5, 7, 3, 1},
                                 {9, 40, 6, 6, 5, 1},
                                 {3, 24, 7, 4, 5, 2},
                                 {17, 32, 8, 8, 3, 2},
                                 {2, 96, 3, 3, 5, 1},
                                 {1, 136, 2, 9, 7, 3}}) {
    SCOPED_TRACE(testing::Message() << c.samples << "x" << c.channels << "x" << c.height << "x" << c.width << " k"
                                    << c.kernel << " s" << c.stride);
    const DepthwiseGradients ours = GradientsOf(c, [&](const at::Tensor& x, const at::Tensor& weight) {
      EXPECT_TRUE(HasDepthwiseKernel(x, weight, c.stride));
      return DepthwiseConvolution(x, weight, c.stride);
    });
    const DepthwiseGradients theirs = GradientsOf(c, [&](const at::Tensor& x, const at::Tensor& weight) {
      return at::conv2d(x, weight, {}, c.stride, c.kernel / 2, 1, c.channels);
    });
    EXPECT_TRUE(ours.y.equal(theirs.y));
    EXPECT_TRUE(ours.x.allclose(theirs.x, 1e-5, 1e-5));
    EXPECT_TRUE(ours.weight.allclose(theirs.weight, 1e-5, 1e-4));
    EXPECT_EQ(ours.weight.sizes(), theirs.weight.sizes());
    EXPECT_TRUE(ours.x.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(DepthwiseConvolution, GradientsDoNotDependOnThreads) {
  const DepthwiseCase c = {19, 40, 6, 5, 5, 1};
  const auto convolve = [&](const at::Tensor& x, const at::Tensor& w) { return DepthwiseConvolution(x, w, c.stride); };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const DepthwiseGradients one = GradientsOf(c, convolve);
  at::set_num_threads(3);
  const DepthwiseGradients three = GradientsOf(c, convolve);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.x.equal(three.x));
  EXPECT_TRUE(one.weight.equal(three.weight));
}

TEST(DepthwiseConvolution, LeavesToATenWhatIsNotForIt) {
  const at::Tensor weight = at::randn({8, 1, 3, 3});
  const auto last = [](const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); };
  EXPECT_TRUE(HasDepthwiseKernel(last(at::randn({2, 8, 4, 4})), weight, 1));
  EXPECT_FALSE(HasDepthwiseKernel(at::randn({2, 8, 4, 4}), weight, 1));
  EXPECT_FALSE(HasDepthwiseKernel(last(at::randn({2, 8, 4, 4})).to(at::kBFloat16), weight, 1));
  EXPECT_FALSE(HasDepthwiseKernel(last(at::randn({2, 12, 4, 4})), at::randn({12, 1, 3, 3}), 1));
  EXPECT_FALSE(HasDepthwiseKernel(last(at::randn({2, 8, 20, 20})), weight, 1));
  EXPECT_TRUE(HasDepthwiseKernel(last(at::randn({2, 8, 20, 20})), weight, 2));
}

}  // namespace
}  // namespace dtrain::models
