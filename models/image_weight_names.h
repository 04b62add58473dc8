// Converts an EfficientNet's weights between torchvision's names, which are used here, and timm's. A ResNet's names are
// the same in both. Hugging Face's names are read for both families.
#pragma once

#include <string>
#include <string_view>

#include "models/weight_names.h"

namespace dtrain::models {

// "features.2.0.block.3.1.bias" ↔ "blocks.1.0.bn3.bias". Return an empty string for a name that is not an
// EfficientNet's.
std::string TimmName(std::string_view torchvision);
std::string TorchvisionName(std::string_view timm);

// Returns whether the weights are an EfficientNet's with timm's names.
bool HaveTimmNames(const NamedWeights& weights);

// `more_epsilon` is by how much BatchNorm's ε is larger in the model here than in timm's, as in torchvision's B5 to B7.
// It is moved into the variances, so that logits do not change. Weights that are not an EfficientNet's are returned
// unchanged.
NamedWeights FromTimm(const NamedWeights& weights, double more_epsilon);
NamedWeights ToTimm(const NamedWeights& weights, double more_epsilon);

// Whose names, ResNetForImageClassification's or EfficientNetForImageClassification's, or those of their backbones.
enum class HuggingFaceNames { kNone, kResNet, kEfficientNet };
HuggingFaceNames HuggingFaceNamesOf(const WeightShapes& weights);

// "resnet.encoder.stages.1.layers.0.layer.2.convolution.weight" → "layer2.0.conv3.weight",
// "efficientnet.encoder.blocks.1.projection.project_conv.weight" → "features.2.0.block.3.0.weight". Weights with other
// names are returned unchanged.
NamedWeights FromHuggingFace(const NamedWeights& weights);

}  // namespace dtrain::models
