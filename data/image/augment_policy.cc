// A space gives the largest magnitude of each operator; a policy draws from a space.
#include "data/image/augment_policy.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace dtrain::data {
namespace {

constexpr const char* kNames[] = {"Identity",  "ShearX",     "ShearY",       "TranslateX", "TranslateY",
                                  "Rotate",    "Brightness", "Color",        "Contrast",   "Sharpness",
                                  "Posterize", "Solarize",   "AutoContrast", "Equalize",   "Invert"};
constexpr int kOperatorsToDraw = 14;  // all but Invert, which only AutoAugment has
constexpr int kBins = 31;             // the number of magnitudes of an operator

// The largest magnitudes of the operators. The smallest are 0.
struct Space {
  double shear, translate_x, translate_y, degrees, factor;
  int posterized_bits;  // the most bits that posterizing removes
};

Space Usual(PixelView image) { return {0.3, 150.0 / 331.0 * image.width, 150.0 / 331.0 * image.height, 30, 0.9, 4}; }
constexpr Space kWide = {0.99, 32, 32, 135, 0.99, 6};

bool HasSign(Operator operation) { return operation >= Operator::kShearX && operation <= Operator::kSharpness; }

// Returns torch.linspace(from, to, bins)[bin] in float32, rounded like ATen's CPU kernel, which works from both ends to
// the middle. The rounding matters: a translation by 15.999999 pixels instead of 16 is truncated to 15.
double Linspace(double from, double to, int bin, int bins) {
  const auto begin = static_cast<float>(from), end = static_cast<float>(to);
  const float step = (end - begin) / static_cast<float>(bins - 1);
  if (bin < bins / 2) return std::fma(step, static_cast<float>(bin), begin);
  return std::fma(-step, static_cast<float>(bins - 1 - bin), end);
}

// Returns the operator's magnitude for `bin`, 0 to bins − 1, without a sign.
double Magnitude(const Space& space, Operator operation, int bin, int bins) {
  switch (operation) {
    case Operator::kShearX:
    case Operator::kShearY:
      return Linspace(0, space.shear, bin, bins);
    case Operator::kTranslateX:
      return Linspace(0, space.translate_x, bin, bins);
    case Operator::kTranslateY:
      return Linspace(0, space.translate_y, bin, bins);
    case Operator::kRotate:
      return Linspace(0, space.degrees, bin, bins);
    case Operator::kBrightness:
    case Operator::kColor:
    case Operator::kContrast:
    case Operator::kSharpness:
      return Linspace(0, space.factor, bin, bins);
    case Operator::kPosterize:
      return 8 - std::nearbyint(space.posterized_bits * static_cast<double>(bin) / (bins - 1));
    case Operator::kSolarize:
      return Linspace(255, 0, bin, bins);
    default:
      return 0;
  }
}

// torchvision passes a shear on as an angle in degrees; the conversions there and back are repeated for equal rounding.
double ThroughDegrees(double tangent) {
  constexpr double kDegree = std::numbers::pi / 180;
  return std::tan(std::atan(tangent) * (180 / std::numbers::pi) * kDegree);
}

double Signed(double magnitude, Operator operation, bool negative) {
  return HasSign(operation) && negative ? -magnitude : magnitude;
}

// One of the two operators of an AutoAugment pair. `magnitude` is a bin of ten, 0 to 9.
struct Step {
  Operator operation;
  double probability;
  int magnitude;
};

constexpr Step kImageNetPolicy[25][2] = {
    {{Operator::kPosterize, 0.4, 8}, {Operator::kRotate, 0.6, 9}},
    {{Operator::kSolarize, 0.6, 5}, {Operator::kAutoContrast, 0.6, 0}},
    {{Operator::kEqualize, 0.8, 0}, {Operator::kEqualize, 0.6, 0}},
    {{Operator::kPosterize, 0.6, 7}, {Operator::kPosterize, 0.6, 6}},
    {{Operator::kEqualize, 0.4, 0}, {Operator::kSolarize, 0.2, 4}},
    {{Operator::kEqualize, 0.4, 0}, {Operator::kRotate, 0.8, 8}},
    {{Operator::kSolarize, 0.6, 3}, {Operator::kEqualize, 0.6, 0}},
    {{Operator::kPosterize, 0.8, 5}, {Operator::kEqualize, 1.0, 0}},
    {{Operator::kRotate, 0.2, 3}, {Operator::kSolarize, 0.6, 8}},
    {{Operator::kEqualize, 0.6, 0}, {Operator::kPosterize, 0.4, 6}},
    {{Operator::kRotate, 0.8, 8}, {Operator::kColor, 0.4, 0}},
    {{Operator::kRotate, 0.4, 9}, {Operator::kEqualize, 0.6, 0}},
    {{Operator::kEqualize, 0.0, 0}, {Operator::kEqualize, 0.8, 0}},
    {{Operator::kInvert, 0.6, 0}, {Operator::kEqualize, 1.0, 0}},
    {{Operator::kColor, 0.6, 4}, {Operator::kContrast, 1.0, 8}},
    {{Operator::kRotate, 0.8, 8}, {Operator::kColor, 1.0, 2}},
    {{Operator::kColor, 0.8, 8}, {Operator::kSolarize, 0.8, 7}},
    {{Operator::kSharpness, 0.4, 7}, {Operator::kInvert, 0.6, 0}},
    {{Operator::kShearX, 0.6, 5}, {Operator::kEqualize, 1.0, 0}},
    {{Operator::kColor, 0.4, 0}, {Operator::kEqualize, 0.6, 0}},
    {{Operator::kEqualize, 0.4, 0}, {Operator::kSolarize, 0.2, 4}},
    {{Operator::kSolarize, 0.6, 5}, {Operator::kAutoContrast, 0.6, 0}},
    {{Operator::kInvert, 0.6, 0}, {Operator::kEqualize, 1.0, 0}},
    {{Operator::kColor, 0.6, 4}, {Operator::kContrast, 1.0, 8}},
    {{Operator::kEqualize, 0.8, 0}, {Operator::kEqualize, 0.6, 0}},
};

}  // namespace

Operator OperatorFromName(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Operator::kInvert); ++i) {
    if (name == kNames[i]) return static_cast<Operator>(i);
  }
  throw std::invalid_argument("there is no augmentation '" + name + "'");
}

void ApplyOperator(PixelView image, Operator operation, double magnitude, Between between) {
  switch (operation) {
    case Operator::kIdentity:
      return;
    case Operator::kShearX:
      return Transform(image, {.b = ThroughDegrees(magnitude)}, between);
    case Operator::kShearY:
      return Transform(image, {.d = ThroughDegrees(magnitude)}, between);
    case Operator::kTranslateX:
      return Transform(image, {.c = -std::trunc(magnitude)}, between);
    case Operator::kTranslateY:
      return Transform(image, {.f = -std::trunc(magnitude)}, between);
    case Operator::kRotate:
      return Rotate(image, magnitude, between);
    case Operator::kBrightness:
      return AdjustBrightness(image, 1 + magnitude);
    case Operator::kColor:
      return AdjustSaturation(image, 1 + magnitude);
    case Operator::kContrast:
      return AdjustContrast(image, 1 + magnitude);
    case Operator::kSharpness:
      return AdjustSharpness(image, 1 + magnitude);
    case Operator::kPosterize:
      return Posterize(image, static_cast<int>(magnitude));
    case Operator::kSolarize:
      return Solarize(image, magnitude);
    case Operator::kAutoContrast:
      return AutoContrast(image);
    case Operator::kEqualize:
      return Equalize(image);
    case Operator::kInvert:
      return Invert(image);
  }
}

Between BetweenFromName(const std::string& name) {
  if (name == "nearest") return Between::kNearest;
  if (name == "bilinear") return Between::kBilinear;
  throw std::invalid_argument("augment_interpolation is nearest or bilinear, not '" + name + "'");
}

double TrivialMagnitude(Operator operation, int bin) { return Magnitude(kWide, operation, bin, kBins); }

void RandAugment(PixelView image, Between between, RandomGenerator& random) {
  constexpr int kOperators = 2, kMagnitude = 9;
  for (int i = 0; i < kOperators; ++i) {
    const auto operation = static_cast<Operator>(random.Below(kOperatorsToDraw));
    const double magnitude = Magnitude(Usual(image), operation, kMagnitude, kBins);
    ApplyOperator(image, operation, Signed(magnitude, operation, random.Below(2) == 1), between);
  }
}

void TrivialAugment(PixelView image, Between between, RandomGenerator& random) {
  const auto operation = static_cast<Operator>(random.Below(kOperatorsToDraw));
  const double magnitude = TrivialMagnitude(operation, static_cast<int>(random.Below(kBins)));
  ApplyOperator(image, operation, Signed(magnitude, operation, random.Below(2) == 1), between);
}

void AutoAugment(PixelView image, Between between, RandomGenerator& random) {
  for (const Step& step : kImageNetPolicy[random.Below(25)]) {
    const bool applies = random.UniformFloat() < step.probability, negative = random.Below(2) == 1;
    if (!applies) continue;
    const double magnitude = Magnitude(Usual(image), step.operation, step.magnitude, 10);
    ApplyOperator(image, step.operation, Signed(magnitude, step.operation, negative), between);
  }
}

const std::vector<Augment>& Augments() {
  static const std::vector<Augment> table = {
      {.name = "none", .description = "the centre of each image", .crops = false},
      {.name = "basic", .description = "random crop and flip"},
      {.name = "randaugment", .description = "basic, then two operators of magnitude 9", .policy = RandAugment},
      {.name = "trivialaugment", .description = "basic, then one operator of any magnitude", .policy = TrivialAugment},
      {.name = "autoaugment", .description = "basic, then AutoAugment's policy for ImageNet", .policy = AutoAugment},
  };
  return table;
}

const Augment& AugmentNamed(std::string_view name) {
  for (const Augment& augment : Augments()) {
    if (name == augment.name) return augment;
  }
  throw std::invalid_argument("there is no augmentation '" + std::string(name) + "'");
}

}  // namespace dtrain::data
