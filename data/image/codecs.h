// The formats behind decode.h, one pair of functions each. Sizes are not yet checked by XxxSize; DecodeXxx is called
// only for sizes that were.
#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <span>

#include "data/image/crop.h"

namespace dtrain::data {

using Bytes = std::span<const uint8_t>;

constexpr int kLongestSide = 65'500;  // pixels; no format may announce more

// All return CV_8UC3 in RGB order and throw DataError.
ImageSize JpegSize(Bytes bytes);
cv::Mat DecodeJpeg(Bytes bytes);
// The box alone; at 1/2, 1/4 or 1/8 where it is at least twice that many times larger than the target and its edges
// fall on (nearly) whole pixels there.
cv::Mat DecodeJpegRegion(Bytes bytes, const CropBox& box, ImageSize target);

ImageSize PngSize(Bytes bytes);
cv::Mat DecodePng(Bytes bytes);

ImageSize WebpSize(Bytes bytes);
cv::Mat DecodeWebp(Bytes bytes);

ImageSize TiffSize(Bytes bytes);
cv::Mat DecodeTiff(Bytes bytes);

ImageSize BmpSize(Bytes bytes);
cv::Mat DecodeBmp(Bytes bytes);

ImageSize PnmSize(Bytes bytes);  // binary PGM and PPM (P5, P6)
cv::Mat DecodePnm(Bytes bytes);

}  // namespace dtrain::data
