// What tests/interop, which compares logits with torchvision's, does not see.
#include "models/resnet.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/registry.h"

namespace dtrain::models {
namespace {

TEST(ResNet, ZeroInitResidualMakesBlocksIdentities) {
  const auto plain = MakeImageModel("resnet50", {});
  const auto zeroed = MakeImageModel("resnet50", {.zero_init_residual = true});
  EXPECT_EQ(plain->named_parameters()["layer3.5.bn3.weight"].sum().item<float>(), 1024);
  EXPECT_EQ(zeroed->named_parameters()["layer3.5.bn3.weight"].sum().item<float>(), 0);
  EXPECT_EQ(zeroed->named_parameters()["layer3.5.bn2.weight"].sum().item<float>(), 256);
}

TEST(ResNet, InitialWeightsHaveTheVarianceOfHe) {
  const auto model = MakeImageModel("resnet50", {});
  const auto weight = model->named_parameters()["layer2.0.conv2.weight"];  // fan-out 128·9
  EXPECT_NEAR(weight.var().item<double>(), 2.0 / (128 * 9), 2e-5);
}

TEST(ResNet, TakesAnyImageSize) {
  const auto model = MakeImageModel("resnet18", {.num_classes = 7});
  model->eval();
  at::NoGradGuard no_grad;
  for (const int64_t size : {32, 33, 64, 97}) {
    EXPECT_EQ(model->forward(at::rand({2, 3, size, size})).sizes(), (std::vector<int64_t>{2, 7}));
  }
}

// The meta device stands in for a GPU, where a gradient in another format would be copied.
TEST(PixelMeans, GradientHasTheFormatOfTheImages) {
  const auto last = at::MemoryFormat::ChannelsLast;
  const at::Tensor on_cpu = at::randn({3, 16, 5, 7}).contiguous(last);
  EXPECT_TRUE(at::equal(PixelMeans(on_cpu), on_cpu.permute({0, 2, 3, 1}).mean({1, 2})));
  const at::Tensor x = on_cpu.to(at::kMeta).requires_grad_(), means = PixelMeans(x);
  EXPECT_EQ(means.sizes(), at::IntArrayRef({3, 16}));
  const at::Tensor dx = torch::autograd::grad({means.sum()}, {x})[0];
  EXPECT_TRUE(dx.is_contiguous(last));
}

}  // namespace
}  // namespace dtrain::models
