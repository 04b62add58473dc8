// Writes JPEG files with libjpeg-turbo.
#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <span>
#include <vector>

namespace dtrain::data {

// Encodes a CV_8UC3 image (RGB) with 4:2:0 colour. Throws DataError if it cannot be written.
std::vector<uint8_t> WriteJpeg(const cv::Mat& image, int quality);

// Returns the same coefficients, hence the same pixels, as a baseline file. A progressive file becomes about a tenth
// larger and decodes in half the time. Metadata are left out. Throws DataError if the file is damaged.
std::vector<uint8_t> RewriteAsBaseline(std::span<const uint8_t> jpeg);

// Returns a JPEG as a baseline file with seek points (data/image/jpeg/seek_points.h), whose crops decode fastest;
// returns any other content, and JPEGs that cannot have them (CMYK, damaged), unchanged.
std::vector<uint8_t> MakeSeekable(std::vector<uint8_t> encoded);

}  // namespace dtrain::data
