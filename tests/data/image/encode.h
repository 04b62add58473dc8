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

struct JpegOptions {
  int quality = 90;
  bool subsample = true;  // 4:2:0 chroma
  bool progressive = false;
  bool adobe_cmyk = false;  // store a 4-channel input inverted as YCCK with Adobe's marker
  int restart_rows = 0;     // MCU rows between two restart markers; 0: no markers
};

// Encodes CV_8UC1 (grey), CV_8UC3 (RGB) or CV_8UC4 (CMYK, stored as it is).
std::vector<uint8_t> EncodeJpeg(const cv::Mat& image, const JpegOptions& options = {});

// Further variants of a JPEG: how its components are sampled, coded and named.
struct JpegVariant {
  std::string colours = "ycc";  // ycc, rgb (stored as it is), grey, cmyk, ycck
  std::array<int, 4> across = {1, 1, 1, 1}, down = {1, 1, 1, 1};
  int quality = 90;
  bool progressive = false, optimised = false, arithmetic = false;
  int restart_units = 0;  // MCUs between two restart markers; 0: no markers, or every so many rows of MCUs
  int restart_rows = 0;
};

// Encodes CV_8UC1 (grey), CV_8UC3 (RGB) or CV_8UC4 (CMYK). Returns nothing if libjpeg does not write such files.
std::vector<uint8_t> EncodeJpegVariant(const cv::Mat& image, const JpegVariant& variant);

struct PngOptions {
  int bit_depth = 8;
  int color_type = 2;  // PNG_COLOR_TYPE_RGB
  bool interlaced = false;
  std::vector<uint8_t> palette = {};  // RGB triples
};

// `rows` are the bytes of each row as PNG packs them.
std::vector<uint8_t> EncodePng(int width, int height, const std::vector<std::vector<uint8_t>>& rows,
                               const PngOptions& options);

}  // namespace dtrain::data
