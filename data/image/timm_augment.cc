// timm's augmentations, with the operators, magnitudes and defaults of timm/data/auto_augment.py, release 1.0.22.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "data/image/augment_policy.h"
#include "data/image/mix.h"

namespace dtrain::data {
namespace {

constexpr double kMostLevel = 10;                                     // of a magnitude, unless mmax says otherwise
constexpr double kUniform = std::numeric_limits<double>::infinity();  // in place of a standard deviation

// One use of an operator.
struct Use {
  double level;               // 0 to 10, or to mmax
  double sign = 1;            // of those that go both ways
  double translation = 0.45;  // part of the side at level 10
  Between between = Between::kBilinear;
  Colour outside = {};
  double part() const { return level / kMostLevel; }
};

double Enhanced(const Use& use) { return 1.8 * use.part() + 0.1; }
double Increased(const Use& use) { return std::max(0.1, 1 + use.sign * 0.9 * use.part()); }
int Bits(const Use& use) { return static_cast<int>(4 * use.part()); }
int SolarizedFrom(const Use& use) { return std::min(256, static_cast<int>(256 * use.part())); }

void PosterizeTo(PixelView image, int bits) {
  if (bits < 8) Posterize(image, bits);
}

void Move(PixelView image, const AffineMap& map, const Use& use) { Transform(image, map, use.between, use.outside); }

struct TimmOperator {
  std::string_view name;
  void (*apply)(PixelView image, const Use& use);
};

constexpr TimmOperator kTimmOperators[] = {
    {"AutoContrast", [](PixelView i, const Use&) { AutoContrast(i); }},
    {"Equalize", [](PixelView i, const Use&) { Equalize(i); }},
    {"Invert", [](PixelView i, const Use&) { Invert(i); }},
    {"Rotate", [](PixelView i, const Use& u) { Rotate(i, u.sign * 30 * u.part(), u.between, u.outside); }},
    {"Posterize", [](PixelView i, const Use& u) { PosterizeTo(i, Bits(u)); }},
    {"PosterizeIncreasing", [](PixelView i, const Use& u) { PosterizeTo(i, 4 - Bits(u)); }},
    {"PosterizeOriginal", [](PixelView i, const Use& u) { PosterizeTo(i, 4 + Bits(u)); }},
    {"Solarize", [](PixelView i, const Use& u) { Solarize(i, SolarizedFrom(u)); }},
    {"SolarizeIncreasing", [](PixelView i, const Use& u) { Solarize(i, 256 - SolarizedFrom(u)); }},
    {"SolarizeAdd", [](PixelView i, const Use& u) { SolarizeAdd(i, std::min(128, static_cast<int>(110 * u.part()))); }},
    {"Color", [](PixelView i, const Use& u) { AdjustSaturation(i, Enhanced(u)); }},
    {"ColorIncreasing", [](PixelView i, const Use& u) { AdjustSaturation(i, Increased(u)); }},
    {"Contrast", [](PixelView i, const Use& u) { AdjustContrast(i, Enhanced(u)); }},
    {"ContrastIncreasing", [](PixelView i, const Use& u) { AdjustContrast(i, Increased(u)); }},
    {"Brightness", [](PixelView i, const Use& u) { AdjustBrightness(i, Enhanced(u)); }},
    {"BrightnessIncreasing", [](PixelView i, const Use& u) { AdjustBrightness(i, Increased(u)); }},
    {"Sharpness", [](PixelView i, const Use& u) { AdjustSharpness(i, Enhanced(u)); }},
    {"SharpnessIncreasing", [](PixelView i, const Use& u) { AdjustSharpness(i, Increased(u)); }},
    {"ShearX", [](PixelView i, const Use& u) { Move(i, {.b = u.sign * 0.3 * u.part()}, u); }},
    {"ShearY", [](PixelView i, const Use& u) { Move(i, {.d = u.sign * 0.3 * u.part()}, u); }},
    {"TranslateXRel",
     [](PixelView i, const Use& u) { Move(i, {.c = u.sign * u.translation * u.part() * i.width}, u); }},
    {"TranslateYRel",
     [](PixelView i, const Use& u) { Move(i, {.f = u.sign * u.translation * u.part() * i.height}, u); }},
};

const TimmOperator& TimmOperatorNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kTimmOperators, name, &TimmOperator::name);
  if (found == std::end(kTimmOperators))
    throw std::invalid_argument("timm has no operator '" + std::string(name) + "'");
  return *found;
}

// How often and how strongly operators are applied.
struct Strength {
  double probability = 0.5;
  double magnitude = kMostLevel;
  double deviation = 0;  // of a normal distribution around the magnitude; kUniform: anything up to it
  double most = kMostLevel;
  double translation = 0.45;
};

void ApplyRandomly(const TimmOperator& operation, const Strength& strength, const PolicySettings& settings,
                   PixelView image, RandomGenerator& random) {
  if (strength.probability < 1 && random.Uniform(0, 1) > strength.probability) return;
  Use use{.level = strength.magnitude, .translation = strength.translation, .outside = settings.outside};
  if (strength.deviation == kUniform) {
    use.level *= random.Uniform(0, 1);
  } else if (strength.deviation > 0) {
    use.level += strength.deviation * random.Normal();
  }
  use.level = std::clamp(use.level, 0.0, strength.most);
  if (random.Below(2) == 1) use.sign = -1;
  const std::vector<Between>& ways = settings.drawn_between;
  use.between = ways[static_cast<size_t>(random.Below(static_cast<int64_t>(ways.size())))];
  operation.apply(image, use);
}

// ---- The text ------------------------------------------------------------------------------------------------------

[[noreturn]] void Refuse(const std::string& text, const std::string& why) {
  throw std::invalid_argument("'" + text + "': " + why);
}

// "rand-m9-mstd0.5" is `kind` rand and the settings m 9 and mstd 0.5.
class Settings {
 public:
  explicit Settings(const std::string& text) : text_(text) {
    std::istringstream stream(text);
    std::getline(stream, kind_, '-');
    for (std::string part; std::getline(stream, part, '-');) {
      const size_t digit = part.find_first_of("0123456789");
      const bool is_name = part.starts_with('t');
      if (!is_name && digit == std::string::npos) Refuse(text, "'" + part + "' has no number");
      const size_t end = is_name ? 1 : digit;
      parts_.emplace_back(part.substr(0, end), part.substr(end));
    }
  }

  const std::string& kind() const { return kind_; }

  // Return the first setting of that name, once.
  std::optional<std::string> Take(const std::string& name) {
    const auto found = std::ranges::find(parts_, name, &std::pair<std::string, std::string>::first);
    if (found == parts_.end()) return std::nullopt;
    std::string value = found->second;
    parts_.erase(found);
    return value;
  }
  double Number(const std::string& name, double otherwise) {
    const auto value = Take(name);
    if (!value) return otherwise;
    char* end = nullptr;
    const double number = std::strtod(value->c_str(), &end);
    if (*end != '\0' || !std::isfinite(number)) Refuse(text_, "'" + name + *value + "' is no number");
    return number;
  }
  int Whole(const std::string& name, int otherwise, int least, int most) {
    const double number = Number(name, otherwise);
    if (number == otherwise) return otherwise;
    if (number != std::floor(number) || number < least || number > most) {
      Refuse(text_, name + " is a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return static_cast<int>(number);
  }
  void RequireEmpty() const {
    if (!parts_.empty()) Refuse(text_, "timm's " + kind_ + " has no setting '" + parts_.front().first + "'");
  }

 private:
  std::string text_, kind_;
  std::vector<std::pair<std::string, std::string>> parts_;
};

// ---- RandAugment ---------------------------------------------------------------------------------------------------

struct Weighted {
  std::string_view name;
  double weight = 1;
};

constexpr Weighted kPlain[] = {{"AutoContrast"}, {"Equalize"},    {"Invert"}, {"Rotate"},        {"Posterize"},
                               {"Solarize"},     {"SolarizeAdd"}, {"Color"},  {"Contrast"},      {"Brightness"},
                               {"Sharpness"},    {"ShearX"},      {"ShearY"}, {"TranslateXRel"}, {"TranslateYRel"}};

constexpr Weighted kByGain[] = {
    {"Rotate", 3},      {"ShearX", 2},        {"ShearY", 2},          {"TranslateXRel", 1}, {"TranslateYRel", 1},
    {"Color", 0.25},    {"Sharpness", 0.25},  {"AutoContrast", 0.25}, {"Solarize", 0.05},   {"SolarizeAdd", 0.05},
    {"Contrast", 0.05}, {"Brightness", 0.05}, {"Equalize", 0.05},     {"Posterize", 0.05},  {"Invert", 0.05}};

// Draws by weight, and leaves what it has drawn out of the next draws if the weights differ.
struct Drawing {
  std::vector<const TimmOperator*> operators = {};
  std::vector<double> weights = {};
  bool with_replacement = true;

  size_t Next(std::vector<double>& left, RandomGenerator& random) const {
    double sum = 0;
    for (const double weight : left) sum += weight;
    double place = random.Uniform(0, sum);
    size_t i = 0;
    while (i + 1 < left.size() && place >= left[i]) place -= left[i++];
    if (!with_replacement) left[i] = 0;
    return i;
  }
};

// `increases`: takes the operators that change more with a greater magnitude, where there are such.
Drawing DrawingFrom(std::span<const Weighted> rows, bool increases, bool with_replacement = true) {
  Drawing drawing{.with_replacement = with_replacement};
  for (const Weighted& row : rows) {
    const std::string increasing = std::string(row.name) + "Increasing";
    const bool is_known = std::ranges::count(kTimmOperators, increasing, &TimmOperator::name) > 0;
    drawing.operators.push_back(&TimmOperatorNamed(increases && is_known ? increasing : row.name));
    drawing.weights.push_back(row.weight);
  }
  return drawing;
}

auto MakeRandAugment(const std::string& text, Settings settings) {
  Strength strength;
  strength.deviation = settings.Number("mstd", 0);
  if (strength.deviation > 100) strength.deviation = kUniform;
  strength.most = settings.Whole("mmax", static_cast<int>(kMostLevel), 1, 1000);
  const bool increases = settings.Take("inc").has_value();  // timm takes inc0 for yes, too
  strength.magnitude = settings.Whole("m", static_cast<int>(kMostLevel), 0, 1000);
  strength.probability = settings.Number("p", 0.5);
  const int count = settings.Whole("n", 2, 1, 15);
  const std::string set = settings.Take("t").value_or("");
  settings.RequireEmpty();
  if (!set.empty() && set != "weights") Refuse(text, "of timm's sets of operators, t, only weights is known here");
  const Drawing drawing =
      set == "weights" ? DrawingFrom(kByGain, true, /*with_replacement=*/false) : DrawingFrom(kPlain, increases);
  return [=](PixelView image, const PolicySettings& told, RandomGenerator& random) {
    std::vector<double> left = drawing.weights;
    for (int i = 0; i < count; ++i) {
      ApplyRandomly(*drawing.operators[drawing.Next(left, random)], strength, told, image, random);
    }
  };
}

// ---- AutoAugment ---------------------------------------------------------------------------------------------------

// For Posterize stands what the policy takes for it.
constexpr std::string_view kPosterize = "Posterize";

constexpr PolicyPair kV0[] = {
    {{{"Equalize", 0.8, 1}, {"ShearY", 0.8, 4}}},       {{{"Color", 0.4, 9}, {"Equalize", 0.6, 3}}},
    {{{"Color", 0.4, 1}, {"Rotate", 0.6, 8}}},          {{{"Solarize", 0.8, 3}, {"Equalize", 0.4, 7}}},
    {{{"Solarize", 0.4, 2}, {"Solarize", 0.6, 2}}},     {{{"Color", 0.2, 0}, {"Equalize", 0.8, 8}}},
    {{{"Equalize", 0.4, 8}, {"SolarizeAdd", 0.8, 3}}},  {{{"ShearX", 0.2, 9}, {"Rotate", 0.6, 8}}},
    {{{"Color", 0.6, 1}, {"Equalize", 1.0, 2}}},        {{{"Invert", 0.4, 9}, {"Rotate", 0.6, 0}}},
    {{{"Equalize", 1.0, 9}, {"ShearY", 0.6, 3}}},       {{{"Color", 0.4, 7}, {"Equalize", 0.6, 0}}},
    {{{kPosterize, 0.4, 6}, {"AutoContrast", 0.4, 7}}}, {{{"Solarize", 0.6, 8}, {"Color", 0.6, 9}}},
    {{{"Solarize", 0.2, 4}, {"Rotate", 0.8, 9}}},       {{{"Rotate", 1.0, 7}, {"TranslateYRel", 0.8, 9}}},
    {{{"ShearX", 0.0, 0}, {"Solarize", 0.8, 4}}},       {{{"ShearY", 0.8, 0}, {"Color", 0.6, 4}}},
    {{{"Color", 1.0, 0}, {"Rotate", 0.6, 2}}},          {{{"Equalize", 0.8, 4}, {"Equalize", 0.0, 8}}},
    {{{"Equalize", 1.0, 4}, {"AutoContrast", 0.6, 2}}}, {{{"ShearY", 0.4, 7}, {"SolarizeAdd", 0.6, 7}}},
    {{{kPosterize, 0.8, 2}, {"Solarize", 0.6, 10}}},    {{{"Solarize", 0.6, 8}, {"Equalize", 0.6, 1}}},
    {{{"Color", 0.8, 6}, {"Rotate", 0.4, 5}}}};

struct Policy {
  std::string_view name;
  const PolicyPair* pairs;  // 25
  std::string_view posterize;
};
const Policy kPolicies[] = {{"original", kImageNetPolicy.data(), "PosterizeOriginal"},
                            {"originalr", kImageNetPolicy.data(), "PosterizeIncreasing"},
                            {"v0", kV0, "Posterize"},
                            {"v0r", kV0, "PosterizeIncreasing"}};

auto MakeAutoAugment(const Policy& policy, Settings settings) {
  const double deviation = settings.Number("mstd", 0);
  settings.RequireEmpty();
  return [policy, deviation](PixelView image, const PolicySettings& told, RandomGenerator& random) {
    for (const PolicyStep& step : policy.pairs[random.Below(25)]) {
      const TimmOperator& operation = TimmOperatorNamed(step.name == kPosterize ? policy.posterize : step.name);
      ApplyRandomly(operation, {.probability = step.probability, .magnitude = step.magnitude, .deviation = deviation},
                    told, image, random);
    }
  };
}

// ---- AugMix (arXiv:1912.02781) -------------------------------------------------------------------------------------

constexpr Weighted kMixed[] = {{"AutoContrast"}, {"Color"},         {"Contrast"},     {"Brightness"}, {"Sharpness"},
                               {"Equalize"},     {"Rotate"},        {"Posterize"},    {"Solarize"},   {"ShearX"},
                               {"ShearY"},       {"TranslateXRel"}, {"TranslateYRel"}};

auto MakeAugMix(const std::string& text, Settings settings) {
  Strength strength{.probability = 1, .translation = 0.3};
  strength.deviation = settings.Number("mstd", kUniform);
  strength.magnitude = settings.Whole("m", 3, 0, 1000);
  const int chains = settings.Whole("w", 3, 1, 100), depth = settings.Whole("d", 0, 1, 100);  // 0: one to three
  const double alpha = settings.Number("a", 1);
  if (settings.Take("b")) Refuse(text, "timm's blended mixing, b, is not known here; leave it out");
  settings.RequireEmpty();
  if (alpha <= 0) Refuse(text, "a is more than 0");
  const Drawing drawing = DrawingFrom(kMixed, /*increases=*/true);
  return [=](PixelView image, const PolicySettings& told, RandomGenerator& random) {
    const size_t bytes = 3 * static_cast<size_t>(image.count());
    const std::vector<double> shares = DrawShares(alpha, chains, random);
    const auto mixed_share = static_cast<float>(DrawSymmetricBeta(alpha, random));
    std::vector<float> mixed(bytes);
    std::vector<uint8_t> chain;
    std::vector<double> weights = drawing.weights;
    for (const double share : shares) {
      chain.assign(image.pixels, image.pixels + bytes);
      const int64_t count = depth > 0 ? depth : 1 + random.Below(3);
      for (int64_t i = 0; i < count; ++i) {
        ApplyRandomly(*drawing.operators[drawing.Next(weights, random)], strength, told,
                      {chain.data(), image.width, image.height}, random);
      }
      for (size_t i = 0; i < bytes; ++i) mixed[i] += static_cast<float>(share) * static_cast<float>(chain[i]);
    }
    for (size_t i = 0; i < bytes; ++i) {
      const auto own = static_cast<float>(image.pixels[i]);
      const float other = std::floor(std::clamp(mixed[i], 0.0F, 255.0F));
      image.pixels[i] = static_cast<uint8_t>(own + mixed_share * (other - own));
    }
  };
}

}  // namespace

const std::array<PolicyPair, 25> kImageNetPolicy = {
    {{{{"Posterize", 0.4, 8}, {"Rotate", 0.6, 9}}},  {{{"Solarize", 0.6, 5}, {"AutoContrast", 0.6, 5}}},
     {{{"Equalize", 0.8, 8}, {"Equalize", 0.6, 3}}}, {{{"Posterize", 0.6, 7}, {"Posterize", 0.6, 6}}},
     {{{"Equalize", 0.4, 7}, {"Solarize", 0.2, 4}}}, {{{"Equalize", 0.4, 4}, {"Rotate", 0.8, 8}}},
     {{{"Solarize", 0.6, 3}, {"Equalize", 0.6, 7}}}, {{{"Posterize", 0.8, 5}, {"Equalize", 1.0, 2}}},
     {{{"Rotate", 0.2, 3}, {"Solarize", 0.6, 8}}},   {{{"Equalize", 0.6, 8}, {"Posterize", 0.4, 6}}},
     {{{"Rotate", 0.8, 8}, {"Color", 0.4, 0}}},      {{{"Rotate", 0.4, 9}, {"Equalize", 0.6, 2}}},
     {{{"Equalize", 0.0, 7}, {"Equalize", 0.8, 8}}}, {{{"Invert", 0.6, 4}, {"Equalize", 1.0, 8}}},
     {{{"Color", 0.6, 4}, {"Contrast", 1.0, 8}}},    {{{"Rotate", 0.8, 8}, {"Color", 1.0, 2}}},
     {{{"Color", 0.8, 8}, {"Solarize", 0.8, 7}}},    {{{"Sharpness", 0.4, 7}, {"Invert", 0.6, 8}}},
     {{{"ShearX", 0.6, 5}, {"Equalize", 1.0, 9}}},   {{{"Color", 0.4, 0}, {"Equalize", 0.6, 3}}},
     {{{"Equalize", 0.4, 7}, {"Solarize", 0.2, 4}}}, {{{"Solarize", 0.6, 5}, {"AutoContrast", 0.6, 5}}},
     {{{"Invert", 0.6, 4}, {"Equalize", 1.0, 8}}},   {{{"Color", 0.6, 4}, {"Contrast", 1.0, 8}}},
     {{{"Equalize", 0.8, 8}, {"Equalize", 0.6, 3}}}}};

Augment TimmAugment(const std::string& text) {
  const Settings settings(text);
  Augment augment{.name = text, .description = "basic, then timm's " + text};
  const auto* const policy = std::ranges::find(kPolicies, settings.kind(), &Policy::name);
  if (settings.kind() == "rand") {
    augment.policy = MakeRandAugment(text, settings);
  } else if (settings.kind() == "augmix") {
    augment.policy = MakeAugMix(text, settings);
  } else if (policy != std::end(kPolicies)) {
    augment.policy = MakeAutoAugment(*policy, settings);
  } else {
    throw std::invalid_argument("there is no augmentation '" + text + "'");
  }
  return augment;
}

void ApplyTimmOperator(PixelView image, const std::string& name, double level, bool negative, Between between,
                       const Colour& outside) {
  TimmOperatorNamed(name).apply(
      image, {.level = level, .sign = negative ? -1.0 : 1.0, .between = between, .outside = outside});
}

}  // namespace dtrain::data
