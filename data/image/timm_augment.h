// timm's augmentations by the text of its --aa, which --augment takes, too: rand-m9-mstd0.5-inc1, augmix-m5-w4,
// original-mstd0.5, v0r … with the operators, magnitudes and defaults of timm/data/auto_augment.py, release 1.0.22.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "data/image/augment_policy.h"
#include "data/image/pixel_ops.h"
#include "data/random.h"

namespace dtrain::data {

// One of the two operators of a pair of AutoAugment, of which magnitudes are bins of ten.
struct PolicyStep {
  std::string_view name;
  double probability, magnitude;
};
using PolicyPair = std::array<PolicyStep, 2>;

// The policy for ImageNet of AutoAugment, torchvision's autoaugment and timm's `original`.
extern const std::array<PolicyPair, 25> kImageNetPolicy;

// Throws std::invalid_argument that says what is wrong with `text`.
Augment TimmAugment(const std::string& text);

// Changes `image` by the operator that timm calls `name` ("SolarizeAdd" …), of magnitude `level`, 0 to 10, against its
// direction if it is `negative`. Throws std::invalid_argument for any other name.
void ApplyTimmOperator(PixelView image, const std::string& name, double level, bool negative, Between between,
                       const Colour& outside);

}  // namespace dtrain::data
