// Which part of an image is used: geometry alone, no pixels. The laws are torchvision's, so that recipes carry over.
#pragma once

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

// What becomes of an image: which part of it is used, in its own pixels, and whether that is mirrored.
struct ImageGeometry {
  CropBox crop;
  bool flip = false;
};

// torchvision's RandomResizedCrop.get_params with scale (0.08, 1) and ratio (3/4, 4/3): up to ten tries at an area and
// an aspect ratio, then the largest central box whose ratio is allowed. Always inside the image, never empty.
CropBox RandomResizedCrop(ImageSize image, RandomGenerator& random);

// Whether to mirror: torchvision's RandomHorizontalFlip(0.5).
bool RandomFlip(RandomGenerator& random);

// torchvision's Resize(short_side): the size an image is given, the long side truncated to whole pixels.
ImageSize ResizeShortSide(ImageSize image, int short_side);

// torchvision's CenterCrop(size) of an image. x, y may be negative and the box reach beyond the image where that is
// smaller than the crop: what lies outside is black.
CropBox CentreCrop(ImageSize image, int size);

}  // namespace dtrain::data
