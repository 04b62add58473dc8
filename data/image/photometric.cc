// Each effect draws from the sample's own generator, and only if it is switched on.
#include "data/image/photometric.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <opencv2/imgproc.hpp>
#include <utility>

namespace dtrain::data {
namespace {

// Principal components of ImageNet's RGB values in [0, 1], as published with AlexNet's successors (fb.resnet.torch,
// MXNet, timm).
constexpr double kEigenvalues[3] = {0.2175, 0.0188, 0.0045};
constexpr double kEigenvectors[3][3] = {
    {-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}};  // [channel][component]

constexpr double kLeastSigma = 0.1, kGreatestSigma = 2.0;
constexpr double kLeastErased = 0.02, kLeastRatio = 0.3;

void ColorJitter(PixelView image, const std::array<double, 4>& strength, RandomGenerator& random) {
  int order[] = {0, 1, 2, 3};
  for (int last = 3; last > 0; --last) std::swap(order[last], order[random.Below(last + 1)]);
  double factor[4];
  for (size_t i = 0; i < 3; ++i) factor[i] = random.Uniform(std::max(0.0, 1 - strength[i]), 1 + strength[i]);
  factor[3] = random.Uniform(-strength[3], strength[3]);
  for (const int which : order) {
    if (strength[static_cast<size_t>(which)] == 0) continue;
    if (which == 0) AdjustBrightness(image, factor[0]);
    if (which == 1) AdjustContrast(image, factor[1]);
    if (which == 2) AdjustSaturation(image, factor[2]);
    if (which == 3) AdjustHue(image, factor[3]);
  }
}

// As in image_aug_default.cc of MXNet 1.9.1: the mean of five draws of which four are the same, so that extremes are
// rare.
void HlsJitter(PixelView image, const std::array<double, 3>& most, RandomGenerator& random) {
  std::array<int, 3> added;
  for (size_t i = 0; i < 3; ++i) {
    const double part = (random.Uniform(0, 1) + 4 * random.Uniform(0, 1)) / 5;
    added[i] = static_cast<int>(part * most[i] * 2 - most[i]);
  }
  ShiftHls(image, added);
}

Colour DrawnColour(const ErasingOptions& options, bool is_mean, RandomGenerator& random) {
  Colour colour;
  for (size_t c = 0; c < 3; ++c) {
    const double value = options.mean[c] + (is_mean ? 0 : options.deviation[c] * random.Normal());
    colour[c] = static_cast<uint8_t>(std::clamp(std::lround(value), 0L, 255L));
  }
  return colour;
}

void Erase(PixelView image, const CropBox& box, const ErasingOptions& options, RandomGenerator& random) {
  using Fill = ErasingOptions::Fill;
  Colour colour = DrawnColour(options, options.fill == Fill::kMean, random);
  for (int y = box.y; y < box.y + box.height; ++y) {
    uint8_t* pixel = image.pixels + 3 * (static_cast<ptrdiff_t>(y) * image.width + box.x);
    for (int x = 0; x < box.width; ++x, pixel += 3) {
      if (options.fill == Fill::kNoise) colour = DrawnColour(options, false, random);
      std::copy(colour.begin(), colour.end(), pixel);
    }
  }
}

int ToNearest(double value) { return static_cast<int>(std::nearbyint(value)); }

}  // namespace

CropBox RandomErasingBox(ImageSize image, const ErasingOptions& options, int64_t count, RandomGenerator& random) {
  const double area = static_cast<double>(image.width) * image.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double erased = area * random.Uniform(kLeastErased, options.most_area) / static_cast<double>(count);
    const double ratio = std::exp(random.Uniform(std::log(kLeastRatio), std::log(options.most_ratio)));
    const int height = ToNearest(std::sqrt(erased * ratio)), width = ToNearest(std::sqrt(erased / ratio));
    if (height >= image.height || width >= image.width) continue;
    const auto y = static_cast<int>(random.Below(image.height - height + 1));
    const auto x = static_cast<int>(random.Below(image.width - width + 1));
    return {x, y, width, height};
  }
  return {};
}

void AddLighting(PixelView image, const std::array<double, 3>& alpha) {
  std::array<std::array<uint8_t, 256>, 3> tables;
  for (size_t c = 0; c < 3; ++c) {
    double shift = 0;
    for (size_t i = 0; i < 3; ++i) shift += 255 * kEigenvectors[c][i] * alpha[i] * kEigenvalues[i];
    for (size_t value = 0; value < 256; ++value) {
      const double shifted = std::nearbyint(static_cast<double>(value) + shift);
      tables[c][value] = static_cast<uint8_t>(std::clamp(shifted, 0.0, 255.0));
    }
  }
  MapValues(image, tables);
}

void ShiftHls(PixelView image, const std::array<int, 3>& added) {
  constexpr int kGreatest[] = {180, 255, 255};
  cv::Mat rgb(image.height, image.width, CV_8UC3, image.pixels), hls;
  cv::cvtColor(rgb, hls, cv::COLOR_RGB2HLS);
  for (ptrdiff_t i = 0; i < ptrdiff_t{3} * image.count(); ++i) {
    uint8_t& value = hls.data[i];
    value = static_cast<uint8_t>(std::clamp(value + added[static_cast<size_t>(i % 3)], 0, kGreatest[i % 3]));
  }
  cv::cvtColor(hls, rgb, cv::COLOR_HLS2RGB);
}

void ApplyPhotometric(PixelView image, const PhotometricOptions& options, RandomGenerator& random) {
  if (options.color_jitter != std::array<double, 4>{}) ColorJitter(image, options.color_jitter, random);
  if (options.hls_jitter != std::array<double, 3>{}) HlsJitter(image, options.hls_jitter, random);
  if (options.pca_lighting > 0) {
    std::array<double, 3> alpha;
    for (double& weight : alpha) weight = options.pca_lighting * random.Normal();
    AddLighting(image, alpha);
  }
  if (options.blur > 0 && random.Uniform(0, 1) < options.blur) {
    const int size = std::max(3, image.width / 10 | 1);
    GaussianBlur(image, size, random.Uniform(kLeastSigma, kGreatestSigma));
  }
  const ErasingOptions& erasing = options.erasing;
  if (erasing.probability > 0 && random.Uniform(0, 1) < erasing.probability) {
    const int64_t count = erasing.most == 1 ? 1 : 1 + random.Below(erasing.most);
    for (int64_t i = 0; i < count; ++i) {
      Erase(image, RandomErasingBox({image.width, image.height}, erasing, count, random), erasing, random);
    }
  }
}

}  // namespace dtrain::data
