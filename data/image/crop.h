// Chooses the part of an image that is used: geometry only, without pixels. The distributions are torchvision's, so
// that its recipes give the same results here.
#pragma once

#include <array>

#include "data/random.h"

namespace dtrain::data {

struct ImageSize {
  int width = 0, height = 0;  // pixels
  bool operator==(const ImageSize&) const = default;
};

struct CropBox {
  int x = 0, y = 0, width = 0, height = 0;  // pixels, from the top left corner
  bool operator==(const CropBox&) const = default;
};

// The part of an image that is used, in the image's own pixels, and whether it is mirrored.
struct ImageGeometry {
  CropBox crop;
  bool flip = false;
};

// How random crops are drawn. The defaults are those of torchvision and timm.
struct RandomCropOptions {
  std::array<double, 2> scale = {0.08, 1};               // least and greatest part of the image's area
  std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3.0};  // least and greatest width / height
  double flip = 0.5;                                     // the probability that a crop is mirrored
};

// torchvision's RandomResizedCrop.get_params: up to ten tries at an area and an aspect ratio, then the largest central
// box with an allowed ratio. The box lies inside the image and is not empty.
CropBox RandomResizedCrop(ImageSize image, const RandomCropOptions& options, RandomGenerator& random);

// torchvision's RandomHorizontalFlip: returns whether to mirror.
bool RandomFlip(double probability, RandomGenerator& random);

// torchvision's Resize(short_side): returns the size of the resized image. The long side is truncated to whole pixels.
ImageSize ResizeShortSide(ImageSize image, int short_side);

// torchvision's CenterCrop(size). If the image is smaller than the crop, x and y are negative and the box reaches
// beyond the image; the caller fills the part outside with black.
CropBox CentreCrop(ImageSize image, int size);

}  // namespace dtrain::data
