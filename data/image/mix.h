// Mixup (arXiv:1710.09412) and CutMix (arXiv:1905.04899): each image of a batch is mixed with its neighbour, and so are
// the labels. The draw is made here, the mixing on the device.
#pragma once

#include <cstdint>

#include "data/image/crop.h"
#include "data/random.h"

namespace dtrain::data {

struct MixOptions {
  double mixup = 0;   // α of the Beta distribution; 0: off
  double cutmix = 0;  // the same; with both, each batch draws one of them, as torchvision's recipes do
  bool enabled() const { return mixup > 0 || cutmix > 0; }
};

// What to do to one batch: the result is own_share of each image and the rest of the one before it.
struct Mix {
  double own_share = 1;
  CropBox box = {};  // not empty: these pixels are taken from the other image (CutMix) rather than blended
};

// One draw for a batch of images of this size; keyed by (seed, step, shard).
Mix DrawMix(const MixOptions& options, ImageSize image, RandomGenerator& random);

// Beta(α, α), by two gamma draws (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000).
double DrawSymmetricBeta(double alpha, RandomGenerator& random);

}  // namespace dtrain::data
