// Tests sizes and names against torchvision's published numbers. Logits are compared in tests/interop.
#include "models/efficientnet.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "models/registry.h"

namespace dtrain::models {
namespace {

struct ScaledSize {
  const char* name;
  int64_t parameters;         // torchvision's model table
  double giga_multiply_adds;  // likewise, at the size in pixels that follows
  int64_t image_size;
};

class EfficientNetSizes : public testing::TestWithParam<ScaledSize> {};

TEST_P(EfficientNetSizes, AreTorchvisions) {
  const auto model = MakeImageModel(GetParam().name, {});
  int64_t parameters = 0;
  for (const auto& parameter : model->parameters()) parameters += parameter.numel();
  EXPECT_EQ(parameters, GetParam().parameters);
  EXPECT_NEAR(static_cast<double>(model->Cost(GetParam().image_size).multiply_adds) * 1e-9,
              GetParam().giga_multiply_adds, 0.01 * GetParam().giga_multiply_adds);
}

INSTANTIATE_TEST_SUITE_P(All, EfficientNetSizes,
                         testing::Values(ScaledSize{"efficientnet_b0", 5'288'548, 0.386, 224},
                                         ScaledSize{"efficientnet_b1", 7'794'184, 0.687, 240},
                                         ScaledSize{"efficientnet_b3", 12'233'232, 1.827, 300},
                                         ScaledSize{"efficientnet_b5", 30'389'784, 10.266, 456},
                                         ScaledSize{"efficientnet_b7", 66'347'960, 37.746, 600}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(EfficientNet, NamesAreStateDictKeys) {
  const auto model = MakeImageModel("efficientnet_b0", {.num_classes = 10});
  const auto parameters = model->named_parameters();
  const auto buffers = model->named_buffers();
  EXPECT_TRUE(parameters.contains("features.0.0.weight"));
  EXPECT_TRUE(parameters.contains("features.1.0.block.1.fc1.bias"));
  EXPECT_TRUE(parameters.contains("features.7.0.block.3.1.weight"));
  EXPECT_TRUE(buffers.contains("features.8.1.running_var"));
  EXPECT_EQ(parameters["classifier.1.weight"].sizes(), (std::vector<int64_t>{10, 1280}));
  EXPECT_EQ(parameters.size() + buffers.size(), 360U);  // entries of torchvision's state_dict
}

// Dropout and drop_path draw anew in each training pass, but not in evaluation. Without them, the model draws nothing.
TEST(EfficientNet, DropsPathsAndFeaturesInTraining) {
  at::set_num_threads(1);  // because threads that wait for each other are slow on a busy machine
  const at::Tensor images = at::rand({4, 3, 32, 32});
  const auto differs = [&images](ImageModel& model) {
    return !at::equal(model.forward(images), model.forward(images));
  };
  for (const auto& [dropout, drop_path, expected] : {std::tuple{0.0, 0.0, false}, {0.5, 0.0, true}, {0.0, 0.9, true}}) {
    const auto model =
        MakeImageModel("efficientnet_b0", {.num_classes = 10, .dropout = dropout, .drop_path = drop_path});
    EXPECT_EQ(differs(*model), expected) << dropout << " " << drop_path;
    model->eval();
    EXPECT_FALSE(differs(*model));
  }
}

TEST(EfficientNet, CountingLeavesTheModelAsItIs) {
  const auto model = MakeImageModel("efficientnet_b0", {});
  model->Cost(224);
  EXPECT_EQ(model->named_buffers()["features.0.1.num_batches_tracked"].item<int64_t>(), 0);
}

}  // namespace
}  // namespace dtrain::models
