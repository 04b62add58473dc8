// WebP, by libwebp; animations are refused.
#include <webp/decode.h>

#include <opencv2/core.hpp>

#include "data/error.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"

namespace dtrain::data {
namespace {

int WebpOrientation(Bytes bytes) { return OrientationInChunks(bytes, /*is_png=*/false); }

ImageSize WebpSize(Bytes bytes) {
  int width = 0, height = 0;
  if (WebPGetInfo(bytes.data(), bytes.size(), &width, &height) == 0) throw DataError("WebP: a damaged header");
  return {width, height};
}

cv::Mat DecodeWebp(Bytes bytes) {
  const auto [width, height] = WebpSize(bytes);
  cv::Mat image(height, width, CV_8UC3);
  const size_t size = image.total() * 3;
  if (WebPDecodeRGBInto(bytes.data(), bytes.size(), image.data, size, 3 * width) == nullptr) {
    throw DataError("WebP: damaged, truncated or an animation");
  }
  return image;
}

}  // namespace

extern const Codec kWebp = {.name = "WebP",
                            .extensions = {".webp"},
                            .beginnings = {"RIFF????WEBP"},
                            .size = WebpSize,
                            .decode = DecodeWebp,
                            .orientation = WebpOrientation,
                            .exif_is_last = true};

}  // namespace dtrain::data
