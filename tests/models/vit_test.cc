// What tests/interop, which compares published members with timm's, does not see.
#include "models/vit.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace dtrain::models {
namespace {

constexpr VisionTransformerOptions kSmall = {
    .width = 16, .layers = 2, .heads = 2, .hidden = 32, .patch = 4, .grid = 3, .num_classes = 5};

// Draws come from training alone, and only if asked for. A second run computes the same.
TEST(VisionTransformer, DropsPathsAndFeaturesInTraining) {
  at::set_num_threads(1);
  const at::Tensor images = at::rand({8, 3, 12, 12});
  for (const auto& [dropout, drop_path, expected] : {std::tuple{0.0, 0.0, false}, {0.5, 0.0, true}, {0.0, 0.9, true}}) {
    VisionTransformerOptions options = kSmall;
    options.dropout = dropout;
    options.drop_path = drop_path;
    VisionTransformer model(options);
    EXPECT_NE(at::equal(model.forward(images), model.forward(images)), expected) << dropout << " " << drop_path;
    model.eval();
    EXPECT_TRUE(at::equal(model.forward(images), model.forward(images)));
  }
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
  VisionTransformerOptions options = kSmall;
  options.gated = true;
  options.averages = true;
  options.registers = 3;
  VisionTransformer model(options);
  const auto weights = model.named_parameters();
  EXPECT_TRUE(weights["blocks.0.mlp.fc1.bias"].slice(0, 16).eq(1).all().item<bool>());
  EXPECT_LT(weights["blocks.0.mlp.fc1.weight"].slice(0, 16).abs().max().item<double>(), 1e-4);
  EXPECT_GT(weights["blocks.0.mlp.fc1.weight"].slice(0, 0, 16).abs().max().item<double>(), 1e-2);
  EXPECT_EQ(weights["blocks.0.mlp.fc2.weight"].sizes(), (std::vector<int64_t>{16, 16}));
  for (const auto& item : weights) EXPECT_TRUE(item.value().isfinite().all().item<bool>()) << item.key();
  EXPECT_EQ(model.forward(at::rand({2, 3, 8, 12})).sizes(), (std::vector<int64_t>{2, 5}));
}

}  // namespace
}  // namespace dtrain::models
