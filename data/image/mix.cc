#include "data/image/mix.h"

#include <algorithm>
#include <cmath>

namespace dtrain::data {
namespace {

// Draws the logarithm of a gamma variable, because for a small shape the variable itself underflows to 0.
double LogGamma(double shape, RandomGenerator& random) {
  if (shape < 1) return LogGamma(shape + 1, random) + std::log(1 - random.Uniform(0, 1)) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.Normal(), cube = std::pow(1 + c * x, 3);
    if (cube <= 0) continue;
    if (std::log(1 - random.Uniform(0, 1)) < 0.5 * x * x + d - d * cube + d * std::log(cube)) return std::log(d * cube);
  }
}

// torchvision's CutMix: a box of area 1 − share around a point anywhere in the image, clipped at the edges.
CropBox CutBox(double share, ImageSize image, RandomGenerator& random) {
  const double half = 0.5 * std::sqrt(1 - share);
  const auto x = static_cast<int>(random.Below(image.width)), y = static_cast<int>(random.Below(image.height));
  const auto half_width = static_cast<int>(half * image.width), half_height = static_cast<int>(half * image.height);
  const int left = std::max(0, x - half_width), right = std::min(image.width, x + half_width);
  const int top = std::max(0, y - half_height), bottom = std::min(image.height, y + half_height);
  return {left, top, right - left, bottom - top};
}

}  // namespace

double DrawSymmetricBeta(double alpha, RandomGenerator& random) {
  const double first = LogGamma(alpha, random), second = LogGamma(alpha, random);
  return 1 / (1 + std::exp(second - first));
}

std::vector<double> DrawShares(double alpha, int count, RandomGenerator& random) {
  std::vector<double> shares(static_cast<size_t>(count));
  for (double& share : shares) share = LogGamma(alpha, random);
  const double largest = *std::ranges::max_element(shares);
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - largest);
  for (double& share : shares) share /= sum;
  return shares;
}

Mix DrawMix(const MixOptions& options, ImageSize image, RandomGenerator& random) {
  Mix mix;
  if (options.probability < 1 && random.Uniform(0, 1) >= options.probability) return mix;
  // Even chances are drawn as they always were, so that runs repeat their draws.
  const auto switches = [&] {
    return options.switch_probability == 0.5 ? random.Below(2) == 1 : random.Uniform(0, 1) < options.switch_probability;
  };
  const bool cut = options.cutmix > 0 && (options.mixup <= 0 || switches());
  mix.own_share = DrawSymmetricBeta(cut ? options.cutmix : options.mixup, random);
  if (!cut) return mix;
  mix.box = CutBox(mix.own_share, image, random);
  mix.own_share = 1 - static_cast<double>(mix.box.width) * mix.box.height / image.width / image.height;
  return mix;
}

}  // namespace dtrain::data
