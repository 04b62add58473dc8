#include "data/image/crop.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dtrain::data {
namespace {

// Like Python's round(), which rounds halves to even.
int Round(double value) { return static_cast<int>(std::nearbyint(value)); }

// CenterCrop along one axis. It pads first (the smaller half in front), then crops.
int CentreOffset(int length, int size) {
  if (size > length) return -((size - length) / 2);
  return Round((length - size) / 2.0);
}

}  // namespace

CropBox RandomResizedCrop(ImageSize image, const RandomCropOptions& options, RandomGenerator& random) {
  const auto [lowest_scale, highest_scale] = options.scale;
  const auto [lowest_ratio, highest_ratio] = options.ratio;
  const double area = static_cast<double>(image.width) * image.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target_area = area * random.Uniform(lowest_scale, highest_scale);
    const double ratio = std::exp(random.Uniform(std::log(lowest_ratio), std::log(highest_ratio)));
    const int width = Round(std::sqrt(target_area * ratio)), height = Round(std::sqrt(target_area / ratio));
    if (0 < width && width <= image.width && 0 < height && height <= image.height) {
      const auto y = static_cast<int>(random.Below(image.height - height + 1));
      const auto x = static_cast<int>(random.Below(image.width - width + 1));
      return {x, y, width, height};
    }
  }
  int width = image.width, height = image.height;
  const double ratio = static_cast<double>(width) / height;
  if (ratio < lowest_ratio) {
    height = std::clamp(Round(width / lowest_ratio), 1, image.height);
  } else if (ratio > highest_ratio) {
    width = std::clamp(Round(height * highest_ratio), 1, image.width);
  }
  return {(image.width - width) / 2, (image.height - height) / 2, width, height};
}

bool RandomFlip(double probability, RandomGenerator& random) { return random.UniformFloat() < probability; }

ImageSize ResizeShortSide(ImageSize image, int short_side) {
  const bool upright = image.width <= image.height;
  const auto [shorter, longer] = std::minmax(image.width, image.height);
  const double long_side = static_cast<double>(int64_t{short_side} * longer) / shorter;
  const int truncated = long_side > INT32_MAX ? INT32_MAX : static_cast<int>(long_side);
  return upright ? ImageSize{short_side, truncated} : ImageSize{truncated, short_side};
}

CropBox CentreCrop(ImageSize image, int size) {
  return {CentreOffset(image.width, size), CentreOffset(image.height, size), size, size};
}

}  // namespace dtrain::data
