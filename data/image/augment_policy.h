// Augmentation by a drawn operator: RandAugment (arXiv:1909.13719), TrivialAugment wide (arXiv:2103.10158) and
// AutoAugment's policy for ImageNet (arXiv:1805.09501), with torchvision's operators, ranges and defaults.
#pragma once

#include <string>

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

// By torchvision's names ("ShearX" …). Throws std::invalid_argument on any other word.
Operator OperatorFromName(const std::string& name);

// `magnitude` in the operator's unit: shear as a tangent, pixels, degrees, the factor's distance from 1, bits,
// threshold.
void ApplyOperator(PixelView image, Operator operation, double magnitude, Between between);

// `between` is for shears, translations and rotations. torchvision's classes take the nearest pixel where nothing is
// said, its training recipe bilinear means.
void RandAugment(PixelView image, Between between, RandomGenerator& random);     // two operators, magnitude 9 of 30
void TrivialAugment(PixelView image, Between between, RandomGenerator& random);  // one operator, any magnitude
void AutoAugment(PixelView image, Between between, RandomGenerator& random);     // one of 25 pairs

// The magnitude of TrivialAugment's bin `bin` of 31, without a sign.
double TrivialMagnitude(Operator operation, int bin);

// The values of --augment_interpolation. Throws std::invalid_argument on any other word.
Between BetweenFromName(const std::string& name);  // nearest | bilinear

}  // namespace dtrain::data
