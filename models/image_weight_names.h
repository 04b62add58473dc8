// Converts an EfficientNet's weights between torchvision's names, which are used here, and timm's. A ResNet's names are
// the same in both; those of Hugging Face's ResNets are read.
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

inline constexpr double kTimmEpsilon = 1e-5;

// The BatchNorm of timm's EfficientNets has ε = 1e-5, that of torchvision's B5 to B7 another. The difference to
// `epsilon`, the ε of the model here, is moved into the variances, so that logits do not change. Weights that are not
// an EfficientNet's are returned unchanged.
NamedWeights FromTimm(const NamedWeights& weights, double epsilon);
NamedWeights ToTimm(const NamedWeights& weights, double epsilon);

// Returns whether the weights are those of Hugging Face's ResNetForImageClassification, or of its backbone.
bool HaveHuggingFaceNames(const NamedWeights& weights);

// "resnet.encoder.stages.1.layers.0.layer.2.convolution.weight" → "layer2.0.conv3.weight". Weights with other names are
// returned unchanged.
NamedWeights FromHuggingFace(const NamedWeights& weights);

}  // namespace dtrain::models
