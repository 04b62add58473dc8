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
void ApplyOperator(PixelView image, Operator operation, double magnitude);

void RandAugment(PixelView image, RandomGenerator& random);     // two operators, magnitude 9 of 30
void TrivialAugment(PixelView image, RandomGenerator& random);  // one operator, any magnitude
void AutoAugment(PixelView image, RandomGenerator& random);     // one of 25 pairs

}  // namespace dtrain::data
