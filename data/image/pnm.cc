// Binary PPM and PGM, which are too simple to need a library.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <opencv2/core.hpp>

#include "data/error.h"
#include "data/image/codecs.h"

namespace dtrain::data {
namespace {

struct PnmHeader {
  int channels = 0, width = 0, height = 0, highest = 0;
  size_t pixels_begin = 0;
};

PnmHeader ReadPnmHeader(Bytes bytes) {
  PnmHeader header;
  header.channels = bytes[1] == '6' ? 3 : 1;
  size_t position = 2;
  for (int* value : {&header.width, &header.height, &header.highest}) {
    const auto at = [&] { return position < bytes.size() ? bytes[position] : uint8_t{0}; };
    while (std::strchr(" \t\r\n\v\f#", at()) != nullptr && at() != 0) {
      if (at() == '#') {
        while (at() != '\n' && at() != 0) ++position;
      } else {
        ++position;
      }
    }
    int digits = 0;
    for (; at() >= '0' && at() <= '9' && digits < 9; ++digits, ++position) *value = *value * 10 + (at() - '0');
    if (digits == 0) throw DataError("PNM: a damaged header");
  }
  header.pixels_begin = position + 1;  // exactly one white-space character
  if (header.highest < 1 || header.highest > 65535) throw DataError("PNM: a damaged header");
  return header;
}

ImageSize PnmSize(Bytes bytes) {
  const PnmHeader header = ReadPnmHeader(bytes);
  return {header.width, header.height};
}

cv::Mat DecodePnm(Bytes bytes) {
  const PnmHeader header = ReadPnmHeader(bytes);
  const size_t sample_bytes = header.highest > 255 ? 2 : 1;
  const size_t samples = static_cast<size_t>(header.channels) * header.width * header.height;
  if (bytes.size() < header.pixels_begin || bytes.size() - header.pixels_begin < samples * sample_bytes) {
    throw DataError("PNM: the file is truncated");
  }
  const uint8_t* from = bytes.data() + header.pixels_begin;
  cv::Mat image(header.height, header.width, CV_8UC3);
  uint8_t* to = image.data;
  for (size_t i = 0; i < samples; ++i, from += sample_bytes) {
    const int value = std::min(header.highest, sample_bytes == 2 ? from[0] << 8 | from[1] : int{from[0]});
    const auto pixel = static_cast<uint8_t>((value * 255 + header.highest / 2) / header.highest);
    for (int copy = 0; copy < 3 / header.channels; ++copy) *to++ = pixel;  // grey: three times
  }
  return image;
}

}  // namespace

extern const Codec kPpm = {"binary PPM", {".ppm"}, {"P6"}, PnmSize, DecodePnm};
extern const Codec kPgm = {"binary PGM", {".pgm"}, {"P5"}, PnmSize, DecodePnm};

}  // namespace dtrain::data
