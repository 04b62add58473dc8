// Augmentation by a drawn operator: RandAugment (arXiv:1909.13719), TrivialAugment wide (arXiv:2103.10158) and
// AutoAugment's policy for ImageNet (arXiv:1805.09501), with torchvision's operators, ranges and defaults; and timm's
// policies, by the text of its --aa (timm_augment.cc).
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/pixel_ops.h"
#include "data/random.h"

namespace dtrain::data {

// Changes `image` by the operator that torchvision calls `name` ("ShearX" …). `magnitude` is in the operator's unit:
// the tangent of a shear, pixels of a translation, degrees of a rotation, the factor's distance from 1 (brightness,
// colour, contrast, sharpness), the bits that posterizing keeps, or the threshold of solarizing. The other operators
// ignore it. Throws std::invalid_argument for any other name.
void ApplyOperator(PixelView image, std::string_view name, double magnitude, Between between);

// Returns TrivialAugment's magnitude of an operator for `bin`, 0 to 30, without a sign.
double TrivialMagnitude(std::string_view name, int bin);

// Changes `image` by the operator that timm calls `name` ("SolarizeAdd" …), of magnitude `level`, 0 to 10, against its
// direction if it is `negative`. Throws std::invalid_argument for any other name.
void ApplyTimmOperator(PixelView image, const std::string& name, double level, bool negative, Between between,
                       const Colour& outside);

// What a policy is told beside the image: how its operators find values between pixels (torchvision's classes default
// to the nearest one, but its training recipe passes bilinear), and, of timm's policies, among which ways each of them
// draws one, and what lies outside of the image.
struct PolicySettings {
  Between between = Between::kNearest;
  std::vector<Between> drawn_between = {Between::kBilinear, Between::kBicubic};
  Colour outside = {124, 116, 104};
};

// What --augment names, besides auto.
struct Augment {
  std::string name;
  std::string description;
  bool crops = true;  // torchvision's RandomResizedCrop and RandomHorizontalFlip; if not, the centre crop of evaluation
  std::function<void(PixelView image, const PolicySettings& settings, RandomGenerator& random)> policy =
      nullptr;  // applied to the crop
};

// A new policy is a row of this table.
const std::vector<Augment>& Augments();

// Returns timm's policy of a configuration: rand-m9-mstd0.5-inc1, augmix-m5-w4, original-mstd0.5, v0r … Throws
// std::invalid_argument that says what is wrong with `text`.
Augment TimmAugment(const std::string& text);

// Returns the row of that name, or timm's policy. Throws as TimmAugment does.
Augment AugmentNamed(const std::string& name);

// One of the two operators of a pair of AutoAugment, of which magnitudes are bins of ten.
struct PolicyStep {
  std::string_view name;
  double probability, magnitude;
};
using PolicyPair = std::array<PolicyStep, 2>;

// AutoAugment's policy for ImageNet, of which timm makes its `original`.
extern const std::array<PolicyPair, 25> kImageNetPolicy;

// Parses --augment_interpolation. Throws std::invalid_argument for any other word.
Between BetweenFromName(const std::string& name);  // nearest | bilinear

}  // namespace dtrain::data
