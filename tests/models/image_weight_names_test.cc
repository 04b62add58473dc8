#include "models/image_weight_names.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "models/registry.h"

namespace dtrain::models {
namespace {

NamedWeights StateOf(const std::string& model) {
  const auto made = MakeImageModel(model, {.num_classes = 5});
  NamedWeights weights;
  for (const auto& item : made->named_parameters()) weights.emplace_back(item.key(), item.value().detach());
  for (const auto& item : made->named_buffers()) weights.emplace_back(item.key(), item.value());
  return weights;
}

TEST(TimmNames, OtherNamesHaveNone) {
  for (const char* name : {"", "fc.weight", "features", "features.", "features.x.0.block.0.0.weight", "features.2",
                           "features.99999999999999999999.0.block.0.0.weight", "features.2.0.block.4.0.weight",
                           "features.1.0.block.3.0.weight", "layer1.0.conv1.weight"}) {
    EXPECT_EQ(TimmName(name), "") << name;
  }
  for (const char* name : {"blocks", "blocks.", "blocks.-1.0.bn1.bias", "blocks.0.0.bn3.bias", "blocks.1.bn1.bias"}) {
    EXPECT_EQ(TorchvisionName(name), "") << name;
  }
}

TEST(TimmNames, WeightsComeBackAsTheyWere) {
  for (const char* model : {"efficientnet_b0", "efficientnet_b5", "resnet18"}) {
    const NamedWeights ours = StateOf(model);
    const NamedWeights theirs = ToTimm(ours, FindModel(model)->norm_epsilon);
    EXPECT_FALSE(HaveTimmNames(ours));
    EXPECT_EQ(HaveTimmNames(theirs), std::string(model) != "resnet18");
    const NamedWeights back = FromTimm(theirs, FindModel(model)->norm_epsilon);
    ASSERT_EQ(back.size(), ours.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(back[i].first, ours[i].first);
      EXPECT_TRUE(back[i].second.allclose(ours[i].second, 0, 1e-6)) << ours[i].first;
    }
  }
}

TEST(RecognisedModel, IsWhatHasTheWeights) {
  for (const char* model :
       {"resnet18", "resnet34", "resnet50", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2"})
    EXPECT_EQ(RecognisedModel(StateOf(model)), model);
  EXPECT_EQ(RecognisedModel({{"fc.weight", at::zeros({2, 3})}, {"features.8.0.weight", at::zeros({})}}), "");
}

}  // namespace
}  // namespace dtrain::models
