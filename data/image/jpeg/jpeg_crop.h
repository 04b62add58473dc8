// A crop of a plain baseline JPEG, resized and perhaps mirrored, straight into a row of a batch. The pixels are those
// of decode, crop and resize within rounding (on average well within 2/255); the way there is another: see
// baseline_jpeg.h. Colours outside of RGB, of which files of very low quality have many, are cut off after resizing.
#pragma once

#include <cstdint>

#include "data/image/crop.h"
#include "data/image/interpolation.h"
#include "data/image/jpeg/baseline_header.h"

namespace dtrain::data {

// Writes side × side RGB pixels to `row`. False: libjpeg-turbo must look at this file; `row` may be partly written.
bool CropBaselineJpeg(const BaselineHeader& header, const CropBox& box, bool flip, Interpolation interpolation,
                      int side, uint8_t* row);

}  // namespace dtrain::data
