// What tests/interop, which compares logits with those of torchvision and timm, does not see.
#include "models/image_networks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/registry.h"

namespace dtrain::models {
namespace {

// Dropout and drop_path draw anew in each training pass, but not in evaluation. Without them, a model draws nothing.
TEST(ImageNetworks, DropPathsAndFeaturesInTraining) {
  at::set_num_threads(1);  // because threads that wait for each other are slow on a busy machine
  const at::Tensor images = at::rand({2, 3, 32, 32});
  const auto differs = [&images](ImageModel& model) {
    return !at::equal(model.forward(images), model.forward(images));
  };
  for (const char* name :
       {"efficientnet_b0", "efficientnetv2_s", "convnextv2_atto", "convnext_atto", "vit_tiny_patch16_224"}) {
    for (const auto& [dropout, drop_path, expected] :
         {std::tuple{0.0, 0.0, false}, {0.5, 0.0, true}, {0.0, 0.9, true}}) {
      const auto model = MakeImageModel(name, {.num_classes = 10, .dropout = dropout, .drop_path = drop_path});
      for (auto& item : model->named_parameters()) {
        if (item.key().ends_with("gamma")) item.value().detach().fill_(1);  // else blocks are hardly seen
      }
      EXPECT_EQ(differs(*model), expected) << name << " " << dropout << " " << drop_path;
      model->eval();
      EXPECT_FALSE(differs(*model));
    }
  }
}

TEST(ImageNetworks, CountingLeavesTheModelAsItIs) {
  const auto model = MakeImageModel("efficientnet_b0", {});
  model->Cost(224);
  EXPECT_EQ(model->named_buffers()["features.0.1.num_batches_tracked"].item<int64_t>(), 0);
}

TEST(ResNet, InitialWeightsHaveTheVarianceOfHeAndBlocksMayBeIdentities) {
  const auto plain = MakeImageModel("resnet50", {}), zeroed = MakeImageModel("resnet50", {.zero_init_residual = true});
  const auto weights = plain->named_parameters(), of_zeroed = zeroed->named_parameters();
  EXPECT_NEAR(weights["layer2.0.conv2.weight"].var().item<double>(), 2.0 / (128 * 9), 2e-5);  // fan-out 128·9
  EXPECT_EQ(weights["layer3.5.bn3.weight"].sum().item<float>(), 1024);
  EXPECT_EQ(of_zeroed["layer3.5.bn3.weight"].sum().item<float>(), 0);
  EXPECT_EQ(of_zeroed["layer3.5.bn2.weight"].sum().item<float>(), 256);
}

// torchvision counts the channels of all groups as a filter's fan-out, timm and TensorFlow those of its own.
TEST(EfficientNet, DepthwiseFiltersBeginAsThoseOfItsPeer) {
  for (const auto& [name, fan_out] : {std::pair("efficientnet_b0", 96 * 9), {"tf_efficientnet_b0", 9}}) {
    const at::Tensor filters = MakeImageModel(name, {})->named_parameters()["features.2.0.block.1.0.weight"];
    EXPECT_EQ(filters.sizes(), at::IntArrayRef({96, 1, 3, 3}));
    EXPECT_NEAR(filters.var().item<double>() * fan_out, 2, 0.5) << name;
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

// It is one where these are faster.
TEST(Conv2d, OfSinglePixelsIsAProductOrIsNot) {
  const auto last = at::MemoryFormat::ChannelsLast;
  Conv2d convolution(Conv2dOptions{96, 256, 1});
  convolution->weight.detach().normal_();
  const at::Tensor x = at::randn({4, 96, 9, 7}).contiguous(last).requires_grad_(), weight = convolution->weight;
  const at::Tensor ours = convolution(x), theirs = at::conv2d(x, weight), dy = at::randn_like(theirs);
  EXPECT_TRUE(ours.is_contiguous(last));
  const auto gradients = torch::autograd::grad({ours}, {x, weight}, {dy});
  const auto wanted = torch::autograd::grad({theirs}, {x, weight}, {dy});
  EXPECT_TRUE(ours.allclose(theirs, 1e-4, 1e-4));
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(gradients[i].allclose(wanted[i], 1e-4, 1e-3)) << i;
}

TEST(Conv2d, OfPatchesIsAProduct) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({2, 3, 8, 12}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor weight = at::randn({5, 3, 4, 4}).requires_grad_(), bias = at::randn({5});
  const at::Tensor y = ConvolvePatches(x, weight, bias), wanted = at::conv2d(x, weight, bias, 4);
  EXPECT_TRUE(y.allclose(wanted, 1e-5, 1e-5));
  EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  const auto gradient = [&](const at::Tensor& of) { return torch::autograd::grad({of.square().sum()}, {weight})[0]; };
  EXPECT_TRUE(gradient(y).allclose(gradient(wanted), 1e-4, 1e-4));
}

// Positions of other sizes are found for rows and columns apart; the tokens' own stay. Autocast does not reach them.
TEST(VisionTransformer, PositionsAreResizedAsImagesAre) {
  const at::Tensor positions = at::rand({1, 9, 4}).set_requires_grad(true);
  const auto as_image = [&](int64_t rows, int64_t columns) {
    const at::Tensor image = positions.view({1, 3, 3, 4}).permute({0, 3, 1, 2});
    return at::_upsample_bicubic2d_aa(image, {rows, columns}, false).permute({0, 2, 3, 1}).reshape({1, -1, 4});
  };
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 3}, {1, 2}, {7, 5}, {2, 6}}) {
    const at::Tensor found = ResizedPositions(positions, rows, columns), expected = as_image(rows, columns);
    EXPECT_TRUE(at::allclose(found, expected, 1e-6, 1e-6)) << rows << "×" << columns;
    const at::Tensor weights = at::rand_like(found);
    const auto gradient_of = [&](const at::Tensor& result) {
      positions.mutable_grad() = at::Tensor();
      (result * weights).sum().backward();
      return positions.grad().clone();
    };
    EXPECT_TRUE(at::allclose(gradient_of(found), gradient_of(expected), 1e-5, 1e-6));
  }
}

// The gate of the only published member with one, which is too large to be drawn in a test.
TEST(VisionTransformer, AGateBeginsNearlyOpen) {
  const auto model = MakeVisionTransformer({.width = 16,
                                            .layers = 2,
                                            .heads = 2,
                                            .hidden = 32,
                                            .patch = 4,
                                            .grid = 3,
                                            .registers = 3,
                                            .averages = true,
                                            .gated = true},
                                           {.num_classes = 5});
  const auto weights = model->named_parameters();
  EXPECT_TRUE(weights["blocks.0.mlp.fc1.bias"].slice(0, 16).eq(1).all().item<bool>());
  EXPECT_LT(weights["blocks.0.mlp.fc1.weight"].slice(0, 16).abs().max().item<double>(), 1e-4);
  EXPECT_GT(weights["blocks.0.mlp.fc1.weight"].slice(0, 0, 16).abs().max().item<double>(), 1e-2);
  EXPECT_EQ(weights["blocks.0.mlp.fc2.weight"].sizes(), (std::vector<int64_t>{16, 16}));
  for (const auto& item : weights) EXPECT_TRUE(item.value().isfinite().all().item<bool>()) << item.key();
  EXPECT_EQ(model->forward(at::rand({2, 3, 8, 12})).sizes(), (std::vector<int64_t>{2, 5}));
}

}  // namespace
}  // namespace dtrain::models
