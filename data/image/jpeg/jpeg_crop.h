// Decodes a crop of a plain baseline JPEG, resized and perhaps mirrored, directly into a row of a batch, which takes
// half the time of decoding to RGB and resizing that: no more is decoded than the crop needs, and colour keeps its own
// resolution until it is resized. The pixels equal those of decoding, cropping and resizing up to rounding (on average
// well within 2/255). Colours outside RGB, frequent in files of very low quality, are clamped after resizing.
#pragma once

#include <cstdint>

#include "data/image/crop.h"
#include "data/image/jpeg/baseline_header.h"
#include "data/image/resample.h"

namespace dtrain::data {

// Writes side × side RGB pixels to `row`. Returns false if libjpeg-turbo must decode the image; `row` may then be
// partly written.
bool CropBaselineJpeg(const BaselineHeader& header, const CropBox& box, bool flip, Interpolation interpolation,
                      int side, uint8_t* row);

}  // namespace dtrain::data
