// Part of a plain baseline JPEG as planes, decoded no further than a crop needs: blocks outside of it are passed over
// in the bit stream, below it nothing is read, and colour stays at its own resolution, because the crop is going to be
// resized anyway. Twice as fast as decoding to RGB and then resizing that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/image/crop.h"
#include "data/image/jpeg/baseline_header.h"

namespace dtrain::data {

// Column by column: sample (x, y) is samples[(x - left)·stride + (y - top)].
struct Plane {
  int left = 0, top = 0, width = 0, height = 0;  // of what was decoded, in samples of this plane
  int stride = 0;
  double scale_x = 1, scale_y = 1;  // samples a pixel: 1, or 0.5 for subsampled colour
  std::vector<uint8_t> samples;
};

struct Planes {
  int count = 0;  // 1: grey; 3: Y, Cb, Cr
  Plane plane[3];
};

// Decodes at least `box` (inside the image) into `planes`, whose memory is used again. False: the data are not as they
// should be, and libjpeg-turbo must say what they are.
bool DecodePlanes(const BaselineHeader& header, const CropBox& box, Planes& planes);

}  // namespace dtrain::data
