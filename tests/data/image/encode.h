// Encoders for tests, which make images of every kind that the decoders support.
#pragma once

#include <array>
#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <string>
#include <vector>

namespace dtrain::data {

// A smooth colour picture with edges, deterministic: CV_8UC3, RGB.
cv::Mat TestPicture(int width, int height);

// How a JPEG is coloured, sampled and coded.
struct JpegOptions {
  std::string colours = "ycc";                // ycc, rgb (stored as it is), grey, cmyk, ycck
  std::array<int, 4> across = {}, down = {};  // of each component; 0: as `subsample` says
  int quality = 90;
  bool subsample = true;  // 4:2:0 chroma of a colour picture
  bool progressive = false, optimised = false, arithmetic = false;
  int restart_units = 0;  // MCUs between two restart markers; 0: no markers, or every so many rows of MCUs
  int restart_rows = 0;
};

// Encodes CV_8UC1 (grey), CV_8UC3 (RGB) or CV_8UC4 (CMYK, stored as it is, or with Adobe's marker as YCCK). Returns
// nothing if libjpeg does not write such files.
std::vector<uint8_t> EncodeJpeg(const cv::Mat& image, const JpegOptions& options = {});

struct PngOptions {
  int bit_depth = 8;
  int color_type = 2;  // PNG_COLOR_TYPE_RGB
  bool interlaced = false;
};

// `rows` are the bytes of each row as PNG packs them.
std::vector<uint8_t> EncodePng(int width, int height, const std::vector<std::vector<uint8_t>>& rows,
                               const PngOptions& options);

}  // namespace dtrain::data
