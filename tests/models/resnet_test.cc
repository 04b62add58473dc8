// Tests sizes and names against torchvision's published numbers. Logits are compared in tests/interop.
#include "models/resnet.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "models/registry.h"

namespace dtrain::models {
namespace {

int64_t CountParameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

struct Size {
  const char* name;
  int64_t parameters;         // torchvision's model table
  double giga_multiply_adds;  // likewise, at 224 px
};

class ResNetSizes : public testing::TestWithParam<Size> {};

TEST_P(ResNetSizes, AreTorchvisions) {
  const auto model = MakeImageModel(GetParam().name, {});
  EXPECT_EQ(CountParameters(*model), GetParam().parameters);
  EXPECT_NEAR(static_cast<double>(model->Cost(224).multiply_adds) * 1e-9, GetParam().giga_multiply_adds, 0.01);
}

INSTANTIATE_TEST_SUITE_P(All, ResNetSizes,
                         testing::Values(Size{"resnet18", 11'689'512, 1.814}, Size{"resnet34", 21'797'672, 3.664},
                                         Size{"resnet50", 25'557'032, 4.089}, Size{"resnet101", 44'549'160, 7.801},
                                         Size{"resnet152", 60'192'808, 11.514}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(ResNet, NamesAreStateDictKeys) {
  const auto model = MakeImageModel("resnet50", {.num_classes = 10});
  const auto parameters = model->named_parameters();
  const auto buffers = model->named_buffers();
  EXPECT_TRUE(parameters.contains("conv1.weight"));
  EXPECT_TRUE(parameters.contains("layer1.0.downsample.0.weight"));
  EXPECT_TRUE(parameters.contains("layer4.2.bn3.bias"));
  EXPECT_TRUE(buffers.contains("layer2.3.bn1.num_batches_tracked"));
  EXPECT_EQ(parameters["fc.weight"].sizes(), (std::vector<int64_t>{10, 2048}));
  EXPECT_EQ(parameters.size() + buffers.size(), 320U);  // entries of torchvision's state_dict
}

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

TEST(Registry, RefusesUnknownNames) {
  EXPECT_THROW(MakeImageModel("resnet51", {}), std::out_of_range);
  const auto names = ModelNames();
  EXPECT_NE(std::find(names.begin(), names.end(), "resnet101"), names.end());
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
