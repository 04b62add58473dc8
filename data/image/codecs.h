// The codecs behind decode.h, a pair of functions for each format. XxxSize returns the header's size unchecked;
// DecodeXxx is called only after that size has been checked.
#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <span>
#include <vector>

#include "data/image/crop.h"

namespace dtrain::data {

using Bytes = std::span<const uint8_t>;

constexpr int kLongestSide = 65'500;  // pixels; a longer side is refused

// The decoders return CV_8UC3 in RGB order. All functions throw DataError.
ImageSize JpegSize(Bytes bytes);
cv::Mat DecodeJpeg(Bytes bytes);
// Decodes the box only. The result has 1/2, 1/4 or 1/8 of its size if it is still at least twice as large as the target
// then and its edges fall on (nearly) whole pixels.
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

// `pixels`: 8-bit RGB, height × width × 3, row by row. Returns the bytes of the file. Throws DataError if libpng
// refuses the size.
std::vector<uint8_t> WritePng(const uint8_t* pixels, int64_t width, int64_t height);

}  // namespace dtrain::data
