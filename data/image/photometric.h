// Random changes of colour, sharpness and content, after crop and flip. The parameters are drawn here; the operators of
// pixel_ops.h change the pixels.
#pragma once

#include <array>
#include <cstdint>

#include "data/image/crop.h"
#include "data/image/pixel_ops.h"
#include "data/random.h"

namespace dtrain::data {

// Which rectangles are erased, and with what.
struct ErasingOptions {
  enum class Fill { kMean, kColour, kNoise };  // the mean; a colour drawn for each rectangle; one for each pixel

  double probability = 0;
  Fill fill = Fill::kMean;
  // At most so many rectangles of an image, which share the area. Their number is drawn.
  int64_t most = 1;
  double most_area = 0.33, most_ratio = 3.3;  // and 0.02 and 0.3 at least: torchvision's RandomErasing
  std::array<double, 3> mean = {123.675, 116.28, 103.53}, deviation = {58.395, 57.12, 57.375};  // of 255 levels
};

struct PhotometricOptions {
  // torchvision's ColorJitter: brightness, contrast, saturation, hue.
  std::array<double, 4> color_jitter = {0, 0, 0, 0};
  // MXNet's: the most that ShiftHls adds.
  std::array<double, 3> hls_jitter = {0, 0, 0};
  double pca_lighting = 0;  // standard deviation of AlexNet's lighting noise; usually 0.1
  double blur = 0;          // probability of a Gaussian blur, sigma 0.1 to 2, kernel a tenth of the side
  ErasingOptions erasing = {};
};

// Applies the effects that are switched on, in this order: jitter, HLS, lighting, blur, erasing.
void ApplyPhotometric(PixelView image, const PhotometricOptions& options, RandomGenerator& random);

// Adds to hue (0 to 180), lightness and saturation (0 to 255) of every pixel, in OpenCV's bytes of them, and keeps them
// in their ranges.
void ShiftHls(PixelView image, const std::array<int, 3>& added);

// torchvision's RandomErasing.get_params: ten tries at an area, divided by `count`, and an aspect ratio. Returns an
// empty box if none fits.
CropBox RandomErasingBox(ImageSize image, const ErasingOptions& options, int64_t count, RandomGenerator& random);

// Adds Σ alpha[i]·eigenvalue[i]·eigenvector[i] of ImageNet's colours (Krizhevsky et al., 2012) to every pixel.
void AddLighting(PixelView image, const std::array<double, 3>& alpha);

}  // namespace dtrain::data
