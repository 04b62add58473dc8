// BMP, by stb_image, which is in this file alone.
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <opencv2/core.hpp>
#include <string>

#include "data/error.h"
#include "data/formats/little_endian.h"
#include "data/image/codecs.h"

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#include <stb_image.h>

namespace dtrain::data {
namespace {

ImageSize BmpSize(Bytes bytes) {
  int width = 0, height = 0, channels = 0;
  if (bytes.size() > INT_MAX) throw DataError("BMP: the file has more than 2 GiB");
  if (stbi_info_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &channels) == 0) {
    throw DataError(std::string("BMP: ") + stbi_failure_reason());
  }
  if (height == INT_MIN) throw DataError("BMP: the height is no number of rows");
  height = std::abs(height);  // negative where rows begin at the top
  // stb_image knows only uncompressed images, and reads zeros beyond the end of a truncated file.
  uint32_t pixels_begin = 0;
  uint16_t bits = 0;
  if (bytes.size() >= 30) {
    const bool old_header = bytes[14] == 12;
    pixels_begin = LoadLittleEndian<uint32_t>(&bytes[10]);
    bits = LoadLittleEndian<uint16_t>(&bytes[old_header ? 24 : 28]);
  }
  const uint64_t row_bytes = (static_cast<uint64_t>(width) * bits + 31) / 32 * 4;
  if (bits == 0 || pixels_begin + row_bytes * static_cast<uint64_t>(height) > bytes.size()) {
    throw DataError("BMP: the file is truncated");
  }
  return {width, height};
}

cv::Mat DecodeBmp(Bytes bytes) {
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<uint8_t, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &channels, 3),
      stbi_image_free);
  if (!pixels) throw DataError(std::string("BMP: ") + stbi_failure_reason());
  return cv::Mat(height, width, CV_8UC3, pixels.get()).clone();
}

}  // namespace

extern const Codec kBmp = {"BMP", {".bmp"}, {"BM"}, BmpSize, DecodeBmp};

}  // namespace dtrain::data
