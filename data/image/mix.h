// Mixup (arXiv:1710.09412) and CutMix (arXiv:1905.04899): each image of a batch is mixed with its neighbour, and so are
// the labels. This file draws the parameters on the host; the task mixes the pixels on the device.
#pragma once

#include <vector>

#include "data/image/crop.h"
#include "data/random.h"

namespace dtrain::data {

struct MixOptions {
  double mixup = 0;        // α of the Beta distribution; 0: off
  double cutmix = 0;       // likewise; if both are set, each batch draws one of them, as in torchvision's recipes
  double probability = 1;  // that a batch is mixed at all
  double switch_probability = 0.5;  // that CutMix is drawn of the two
  bool enabled() const { return mixup > 0 || cutmix > 0; }
};

// How one batch is mixed: each image keeps `own_share` of itself and takes the rest from the image before it.
struct Mix {
  double own_share = 1;
  CropBox box = {};  // not empty (CutMix): these pixels are replaced by the other image's, and nothing is blended
};

// Draws the mix of one batch of images of this size. Requires options.enabled(). The caller keys `random` by (seed,
// step, shard).
Mix DrawMix(const MixOptions& options, ImageSize image, RandomGenerator& random);

// Draws from Beta(α, α) by two gamma draws (Marsaglia and Tsang, "A simple method for generating gamma variables",
// 2000).
double DrawSymmetricBeta(double alpha, RandomGenerator& random);

// Draws `count` numbers whose sum is 1 from Dirichlet(α, …, α).
std::vector<double> DrawShares(double alpha, int count, RandomGenerator& random);

}  // namespace dtrain::data
