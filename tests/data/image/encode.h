// Encoders for tests: images of every kind that the decoder must know, made on the spot.
#pragma once

#include <cstdint>
#include <opencv2/core/mat.hpp>
#include <vector>

namespace dtrain::data {

// A smooth colour picture with edges, deterministic: CV_8UC3, RGB.
cv::Mat TestPicture(int width, int height);

struct JpegOptions {
  int quality = 90;
  bool subsample = true;  // 4:2:0 chroma
  bool progressive = false;
  bool adobe_cmyk = false;  // 4-channel input is stored inverted as YCCK with Adobe's marker
  int restart_rows = 0;     // restart markers
};

// From CV_8UC1 (grey), CV_8UC3 (RGB) or CV_8UC4 (CMYK, stored as it is).
std::vector<uint8_t> EncodeJpeg(const cv::Mat& image, const JpegOptions& options = {});

struct PngOptions {
  int bit_depth = 8;
  int color_type = 2;  // PNG_COLOR_TYPE_RGB
  bool interlaced = false;
  std::vector<uint8_t> palette = {};  // RGB triples
};

// `rows`: bytes of each row as PNG packs them.
std::vector<uint8_t> EncodePng(int width, int height, const std::vector<std::vector<uint8_t>>& rows,
                               const PngOptions& options);

}  // namespace dtrain::data
