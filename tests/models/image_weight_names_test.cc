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
    const double more_epsilon = FindModel(model)->norm_epsilon - FindModel(model)->timm_norm_epsilon;
    const NamedWeights theirs = ToTimm(ours, more_epsilon);
    EXPECT_FALSE(HaveTimmNames(ours));
    EXPECT_EQ(HaveTimmNames(theirs), std::string(model) != "resnet18");
    const NamedWeights back = FromTimm(theirs, more_epsilon);
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

TEST(HuggingFaceNames, AreThoseOfResNetForImageClassification) {
  const std::pair<const char*, const char*> cases[] = {
      {"resnet.embedder.embedder.convolution.weight", "conv1.weight"},
      {"resnet.embedder.embedder.normalization.running_var", "bn1.running_var"},
      {"resnet.encoder.stages.0.layers.0.shortcut.convolution.weight", "layer1.0.downsample.0.weight"},
      {"resnet.encoder.stages.1.layers.0.shortcut.normalization.bias", "layer2.0.downsample.1.bias"},
      {"resnet.encoder.stages.2.layers.10.layer.2.convolution.weight", "layer3.10.conv3.weight"},
      {"encoder.stages.3.layers.1.layer.0.normalization.weight", "layer4.1.bn1.weight"},  // of a ResNetModel
      {"classifier.1.weight", "fc.weight"},
      {"resnet.encoder.stages.0.layers.0.layer.0.other.weight",
       "resnet.encoder.stages.0.layers.0.layer.0.other.weight"},
      {"resnet.encoder.stages.0", "resnet.encoder.stages.0"},
  };
  NamedWeights weights;
  for (const auto& [theirs, ours] : cases) weights.emplace_back(theirs, at::zeros({1}));
  const NamedWeights renamed = FromHuggingFace(weights);
  for (size_t i = 0; i < renamed.size(); ++i) EXPECT_EQ(renamed[i].first, cases[i].second);
  const NamedWeights other = {{"classifier.1.weight", at::zeros({1})}};  // torchvision's EfficientNet
  EXPECT_EQ(FromHuggingFace(other).front().first, "classifier.1.weight");
}

}  // namespace
}  // namespace dtrain::models
