// A space gives the largest magnitude of each operator; a policy draws from a space.
#include "data/image/augment_policy.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <stdexcept>

namespace dtrain::data {
namespace {

constexpr int kBins = 31;  // the number of magnitudes of an operator

// The largest magnitudes of the operators. The smallest are 0.
struct Space {
  double shear, translate_x, translate_y, degrees, factor;
  int posterized_bits;  // the most bits that posterizing removes
};

Space Usual(PixelView image) { return {0.3, 150.0 / 331.0 * image.width, 150.0 / 331.0 * image.height, 30, 0.9, 4}; }
constexpr Space kWide = {0.99, 32, 32, 135, 0.99, 6};

// Returns torch.linspace(from, to, bins)[bin] in float32, rounded like ATen's CPU kernel, which works from both ends to
// the middle. The rounding matters: a translation by 15.999999 pixels instead of 16 is truncated to 15.
double Linspace(double from, double to, int bin, int bins) {
  const auto begin = static_cast<float>(from), end = static_cast<float>(to);
  const float step = (end - begin) / static_cast<float>(bins - 1);
  if (bin < bins / 2) return std::fma(step, static_cast<float>(bin), begin);
  return std::fma(-step, static_cast<float>(bins - 1 - bin), end);
}

// torchvision passes a shear on as an angle in degrees; the conversions there and back are repeated for equal rounding.
double ThroughDegrees(double tangent) {
  constexpr double kDegree = std::numbers::pi / 180;
  return std::tan(std::atan(tangent) * (180 / std::numbers::pi) * kDegree);
}

struct Operator {
  std::string_view name;
  void (*apply)(PixelView image, double magnitude, Between between);
  double Space::*largest = nullptr;  // of its magnitudes, which have a sign; null if they have none
  double (*magnitude)(const Space& space, int bin, int bins) = nullptr;  // of those without a sign; null: there is none

  // Returns the magnitude of `bin`, 0 to bins − 1, without a sign.
  double Magnitude(const Space& space, int bin, int bins) const {
    if (magnitude != nullptr) return magnitude(space, bin, bins);
    return largest == nullptr ? 0 : Linspace(0, space.*largest, bin, bins);
  }
  void Apply(PixelView image, double unsigned_magnitude, bool negative, Between between) const {
    apply(image, largest != nullptr && negative ? -unsigned_magnitude : unsigned_magnitude, between);
  }
};

double KeptBits(const Space& space, int bin, int bins) {
  return 8 - std::nearbyint(space.posterized_bits * static_cast<double>(bin) / (bins - 1));
}
double Threshold(const Space& /*space*/, int bin, int bins) { return Linspace(255, 0, bin, bins); }

// RandAugment and TrivialAugment draw one of the first ones, in this order.
constexpr int kOperatorsToDraw = 14;
constexpr Operator kOperators[] = {
    {"Identity", [](PixelView, double, Between) {}},
    {"ShearX", [](PixelView i, double m, Between b) { Transform(i, {.b = ThroughDegrees(m)}, b); }, &Space::shear},
    {"ShearY", [](PixelView i, double m, Between b) { Transform(i, {.d = ThroughDegrees(m)}, b); }, &Space::shear},
    {"TranslateX", [](PixelView i, double m, Between b) { Transform(i, {.c = -std::trunc(m)}, b); },
     &Space::translate_x},
    {"TranslateY", [](PixelView i, double m, Between b) { Transform(i, {.f = -std::trunc(m)}, b); },
     &Space::translate_y},
    {"Rotate", [](PixelView i, double m, Between b) { Rotate(i, m, b); }, &Space::degrees},
    {"Brightness", [](PixelView i, double m, Between) { AdjustBrightness(i, 1 + m); }, &Space::factor},
    {"Color", [](PixelView i, double m, Between) { AdjustSaturation(i, 1 + m); }, &Space::factor},
    {"Contrast", [](PixelView i, double m, Between) { AdjustContrast(i, 1 + m); }, &Space::factor},
    {"Sharpness", [](PixelView i, double m, Between) { AdjustSharpness(i, 1 + m); }, &Space::factor},
    {"Posterize", [](PixelView i, double m, Between) { Posterize(i, static_cast<int>(m)); }, nullptr, KeptBits},
    {"Solarize", [](PixelView i, double m, Between) { Solarize(i, m); }, nullptr, Threshold},
    {"AutoContrast", [](PixelView i, double, Between) { AutoContrast(i); }},
    {"Equalize", [](PixelView i, double, Between) { Equalize(i); }},
    {"Invert", [](PixelView i, double, Between) { Invert(i); }},  // only AutoAugment has it
};

const Operator& OperatorNamed(std::string_view name) {
  const auto* const row = std::ranges::find(kOperators, name, &Operator::name);
  if (row == std::end(kOperators)) throw std::invalid_argument("there is no augmentation '" + std::string(name) + "'");
  return *row;
}

// Two operators of magnitude 9 of 30.
void RandAugment(PixelView image, const PolicySettings& settings, RandomGenerator& random) {
  constexpr int kTimes = 2, kMagnitude = 9;
  for (int i = 0; i < kTimes; ++i) {
    const Operator& operation = kOperators[random.Below(kOperatorsToDraw)];
    operation.Apply(image, operation.Magnitude(Usual(image), kMagnitude, kBins), random.Below(2) == 1,
                    settings.between);
  }
}

// One operator of any magnitude.
void TrivialAugment(PixelView image, const PolicySettings& settings, RandomGenerator& random) {
  const Operator& operation = kOperators[random.Below(kOperatorsToDraw)];
  const double magnitude = operation.Magnitude(kWide, static_cast<int>(random.Below(kBins)), kBins);
  operation.Apply(image, magnitude, random.Below(2) == 1, settings.between);
}

// One of 25 pairs.
void AutoAugment(PixelView image, const PolicySettings& settings, RandomGenerator& random) {
  for (const PolicyStep& step : kImageNetPolicy[static_cast<size_t>(random.Below(25))]) {
    const bool applies = random.UniformFloat() < step.probability, negative = random.Below(2) == 1;
    if (!applies) continue;
    const Operator& operation = OperatorNamed(step.name);
    operation.Apply(image, operation.Magnitude(Usual(image), static_cast<int>(step.magnitude), 10), negative,
                    settings.between);
  }
}

}  // namespace

void ApplyOperator(PixelView image, std::string_view name, double magnitude, Between between) {
  OperatorNamed(name).apply(image, magnitude, between);
}

double TrivialMagnitude(std::string_view name, int bin) { return OperatorNamed(name).Magnitude(kWide, bin, kBins); }

Between BetweenFromName(const std::string& name) {
  if (name == "nearest") return Between::kNearest;
  if (name == "bilinear") return Between::kBilinear;
  throw std::invalid_argument("augment_interpolation is nearest or bilinear, not '" + name + "'");
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

Augment AugmentNamed(const std::string& name) {
  const auto row = std::ranges::find(Augments(), name, &Augment::name);
  return row == Augments().end() ? TimmAugment(name) : *row;
}

}  // namespace dtrain::data
