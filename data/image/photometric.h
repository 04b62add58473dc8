// Random changes of colour, sharpness and content, after crop and flip. The parameters are drawn here; the operators of
// pixel_ops.h change the pixels.
#pragma once

#include <array>
#include <cstdint>

#include "data/image/crop.h"
#include "data/image/pixel_ops.h"
#include "data/random.h"

namespace dtrain::data {

struct PhotometricOptions {
  // torchvision's ColorJitter: brightness, contrast, saturation, hue.
  std::array<double, 4> color_jitter = {0, 0, 0, 0};
  double pca_lighting = 0;    // standard deviation of AlexNet's lighting noise; usually 0.1
  double blur = 0;            // probability of a Gaussian blur, sigma 0.1 to 2, kernel a tenth of the side
  double random_erasing = 0;  // probability of torchvision's RandomErasing, scale (0.02, 0.33), ratio (0.3, 3.3)
  std::array<uint8_t, 3> erased = {124, 116, 104};  // colour of erased pixels: ImageNet's mean, which normalises to 0
};

// Applies the effects that are switched on, in this order: jitter, lighting, blur, erasing.
void ApplyPhotometric(PixelView image, const PhotometricOptions& options, RandomGenerator& random);

// torchvision's RandomErasing.get_params: ten tries at an area and an aspect ratio. Returns an empty box if none fits.
CropBox RandomErasingBox(ImageSize image, RandomGenerator& random);

// Adds Σ alpha[i]·eigenvalue[i]·eigenvector[i] of ImageNet's colours (Krizhevsky et al., 2012) to every pixel.
void AddLighting(PixelView image, const std::array<double, 3>& alpha);

}  // namespace dtrain::data
