// Decodes part of a plain baseline JPEG into planes, no more than a crop needs: blocks outside the crop are skipped in
// the bit stream, nothing below it is read, and colour keeps its own resolution because the crop is resized afterwards.
// This takes half the time of decoding to RGB and resizing that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/image/crop.h"
#include "data/image/jpeg/baseline_header.h"

namespace dtrain::data {

// One decoded component, stored by column: sample (x, y) is samples[(x - left)·stride + (y - top)].
struct Plane {
  int left = 0, top = 0, width = 0, height = 0;  // the decoded part, in samples of this plane
  int stride = 0;
  double scale_x = 1, scale_y = 1;  // samples per pixel: 1, or 0.5 for subsampled colour
  std::vector<uint8_t> samples;
};

struct Planes {
  int count = 0;  // 1: grey; 3: Y, Cb, Cr
  Plane plane[3];
};

// Decodes at least `box` (inside the image) into `planes`, whose memory is reused. Returns false if the data are not as
// they should be; libjpeg-turbo must then decode the image or report what is wrong.
bool DecodePlanes(const BaselineHeader& header, const CropBox& box, Planes& planes);

}  // namespace dtrain::data
