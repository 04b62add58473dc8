// An EfficientNet's weights as timm names them. Names here are torchvision's; a ResNet's are the same in both.
#pragma once

#include <string>
#include <string_view>

#include "models/weight_names.h"

namespace dtrain::models {

// "features.2.0.block.3.1.bias" → "blocks.1.0.bn3.bias"; empty where it is no name of an EfficientNet's.
std::string TimmName(std::string_view torchvision);
std::string TorchvisionName(std::string_view timm);

// Whether they are an EfficientNet's in timm's naming.
bool HaveTimmNames(const NamedWeights& weights);

inline constexpr double kTimmEpsilon = 1e-5;

// timm's BatchNorm has ε = 1e-5 in all of its EfficientNets, torchvision's B5 to B7 another: what `epsilon` (that of
// the model here) differs by is moved into the variances, so that logits stay what they are. Weights that are not an
// EfficientNet's pass as they are.
NamedWeights FromTimm(const NamedWeights& weights, double epsilon);
NamedWeights ToTimm(const NamedWeights& weights, double epsilon);

}  // namespace dtrain::models
