// Augmentation by a drawn operator: RandAugment (arXiv:1909.13719), TrivialAugment wide (arXiv:2103.10158) and
// AutoAugment's policy for ImageNet (arXiv:1805.09501), with torchvision's operators, ranges and defaults.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/pixel_ops.h"
#include "data/random.h"

namespace dtrain::data {

enum class Operator {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert,
};

// Returns the operator that torchvision calls `name` ("ShearX" …). Throws std::invalid_argument for any other name.
Operator OperatorFromName(std::string_view name);

// Changes `image` in place. `magnitude` is in the operator's unit: the tangent of a shear, pixels of a translation,
// degrees of a rotation, the factor's distance from 1 (brightness, colour, contrast, sharpness), the bits that
// posterizing keeps, or the threshold of solarizing. The other operators ignore it.
void ApplyOperator(PixelView image, Operator operation, double magnitude, Between between);

// What a policy is told beside the image: how its operators find values between pixels, and, of timm's policies, among
// which ways each of them draws one, and what lies outside of the image.
struct PolicySettings {
  Between between = Between::kNearest;
  std::vector<Between> drawn_between = {Between::kBilinear, Between::kBicubic};
  Colour outside = {124, 116, 104};
};

// Shears, translations and rotations interpolate by `between`. torchvision's classes default to the nearest pixel, but
// its training recipe passes bilinear.
void RandAugment(PixelView image, const PolicySettings& settings, RandomGenerator& random);  // two, magnitude 9 of 30
void TrivialAugment(PixelView image, const PolicySettings& settings, RandomGenerator& random);  // one, any magnitude
void AutoAugment(PixelView image, const PolicySettings& settings, RandomGenerator& random);     // one of 25 pairs

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

// Returns the row of that name, or timm's policy of that configuration (timm_augment.h). Throws std::invalid_argument
// for any other name.
Augment AugmentNamed(const std::string& name);

// Returns TrivialAugment's magnitude for `bin`, 0 to 30, without a sign, in ApplyOperator's unit.
double TrivialMagnitude(Operator operation, int bin);

// Parses --augment_interpolation. Throws std::invalid_argument for any other word.
Between BetweenFromName(const std::string& name);  // nearest | bilinear

}  // namespace dtrain::data
