// JPEG files through libjpeg-turbo.
#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <span>
#include <vector>

namespace dtrain::data {

// From CV_8UC3, RGB; 4:2:0 colour. Throws DataError where it cannot be written.
std::vector<uint8_t> WriteJpeg(const cv::Mat& image, int quality);

// The same coefficients (hence the same pixels) as a baseline file: a progressive one becomes about a tenth larger and
// decodes in half the time. Metadata are left out. Throws DataError where the file is damaged.
std::vector<uint8_t> RewriteAsBaseline(std::span<const uint8_t> jpeg);

}  // namespace dtrain::data
