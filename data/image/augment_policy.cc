// A space gives the largest magnitude of each operator; a policy draws from a space.
#include "data/image/augment_policy.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <stdexcept>
#include <string_view>

#include "data/image/timm_augment.h"

namespace dtrain::data {
namespace {

constexpr int kOperatorsToDraw = 14;  // all but Invert, which only AutoAugment has
constexpr int kBins = 31;             // the number of magnitudes of an operator

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

// An operator. `largest`: of its magnitudes, which have a sign; null if they are of another kind, or it has none.
struct OperatorRow {
  std::string_view name;
  double Space::*largest;
  void (*apply)(PixelView image, double magnitude, Between between);
};

// In the order of Operator.
constexpr OperatorRow kOperators[] = {
    {"Identity", nullptr, [](PixelView, double, Between) {}},
    {"ShearX", &Space::shear, [](PixelView i, double m, Between b) { Transform(i, {.b = ThroughDegrees(m)}, b); }},
    {"ShearY", &Space::shear, [](PixelView i, double m, Between b) { Transform(i, {.d = ThroughDegrees(m)}, b); }},
    {"TranslateX", &Space::translate_x,
     [](PixelView i, double m, Between b) { Transform(i, {.c = -std::trunc(m)}, b); }},
    {"TranslateY", &Space::translate_y,
     [](PixelView i, double m, Between b) { Transform(i, {.f = -std::trunc(m)}, b); }},
    {"Rotate", &Space::degrees, [](PixelView i, double m, Between b) { Rotate(i, m, b); }},
    {"Brightness", &Space::factor, [](PixelView i, double m, Between) { AdjustBrightness(i, 1 + m); }},
    {"Color", &Space::factor, [](PixelView i, double m, Between) { AdjustSaturation(i, 1 + m); }},
    {"Contrast", &Space::factor, [](PixelView i, double m, Between) { AdjustContrast(i, 1 + m); }},
    {"Sharpness", &Space::factor, [](PixelView i, double m, Between) { AdjustSharpness(i, 1 + m); }},
    {"Posterize", nullptr, [](PixelView i, double m, Between) { Posterize(i, static_cast<int>(m)); }},
    {"Solarize", nullptr, [](PixelView i, double m, Between) { Solarize(i, m); }},
    {"AutoContrast", nullptr, [](PixelView i, double, Between) { AutoContrast(i); }},
    {"Equalize", nullptr, [](PixelView i, double, Between) { Equalize(i); }},
    {"Invert", nullptr, [](PixelView i, double, Between) { Invert(i); }},
};

const OperatorRow& RowOf(Operator operation) { return kOperators[static_cast<size_t>(operation)]; }

// Returns the operator's magnitude for `bin`, 0 to bins − 1, without a sign.
double Magnitude(const Space& space, Operator operation, int bin, int bins) {
  if (operation == Operator::kSolarize) return Linspace(255, 0, bin, bins);
  if (operation == Operator::kPosterize) {
    return 8 - std::nearbyint(space.posterized_bits * static_cast<double>(bin) / (bins - 1));
  }
  const auto largest = RowOf(operation).largest;
  return largest == nullptr ? 0 : Linspace(0, space.*largest, bin, bins);
}

double Signed(double magnitude, Operator operation, bool negative) {
  return RowOf(operation).largest != nullptr && negative ? -magnitude : magnitude;
}

}  // namespace

Operator OperatorFromName(std::string_view name) {
  const auto* const row = std::ranges::find(kOperators, name, &OperatorRow::name);
  if (row == std::end(kOperators)) throw std::invalid_argument("there is no augmentation '" + std::string(name) + "'");
  return static_cast<Operator>(row - kOperators);
}

void ApplyOperator(PixelView image, Operator operation, double magnitude, Between between) {
  RowOf(operation).apply(image, magnitude, between);
}

Between BetweenFromName(const std::string& name) {
  if (name == "nearest") return Between::kNearest;
  if (name == "bilinear") return Between::kBilinear;
  throw std::invalid_argument("augment_interpolation is nearest or bilinear, not '" + name + "'");
}

double TrivialMagnitude(Operator operation, int bin) { return Magnitude(kWide, operation, bin, kBins); }

void RandAugment(PixelView image, const PolicySettings& settings, RandomGenerator& random) {
  constexpr int kTimes = 2, kMagnitude = 9;
  for (int i = 0; i < kTimes; ++i) {
    const auto operation = static_cast<Operator>(random.Below(kOperatorsToDraw));
    const double magnitude = Magnitude(Usual(image), operation, kMagnitude, kBins);
    ApplyOperator(image, operation, Signed(magnitude, operation, random.Below(2) == 1), settings.between);
  }
}

void TrivialAugment(PixelView image, const PolicySettings& settings, RandomGenerator& random) {
  const auto operation = static_cast<Operator>(random.Below(kOperatorsToDraw));
  const double magnitude = TrivialMagnitude(operation, static_cast<int>(random.Below(kBins)));
  ApplyOperator(image, operation, Signed(magnitude, operation, random.Below(2) == 1), settings.between);
}

void AutoAugment(PixelView image, const PolicySettings& settings, RandomGenerator& random) {
  for (const PolicyStep& step : kImageNetPolicy[static_cast<size_t>(random.Below(25))]) {
    const bool applies = random.UniformFloat() < step.probability, negative = random.Below(2) == 1;
    if (!applies) continue;
    const Operator operation = OperatorFromName(step.name);
    const double magnitude = Magnitude(Usual(image), operation, static_cast<int>(step.magnitude), 10);
    ApplyOperator(image, operation, Signed(magnitude, operation, negative), settings.between);
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

Augment AugmentNamed(const std::string& name) {
  const auto row = std::ranges::find(Augments(), name, &Augment::name);
  return row == Augments().end() ? TimmAugment(name) : *row;
}

}  // namespace dtrain::data
