// PNG through libpng's simplified interface: for writing 8-bit RGB it does all that is needed.
#include "data/prepare/encode_pixels.h"

#include <png.h>

#include <opencv2/core/mat.hpp>
#include <string>

#include "data/error.h"
#include "data/prepare/jpeg_writer.h"

namespace dtrain::data {
namespace {

std::vector<uint8_t> WritePng(const uint8_t* pixels, const RawRows& rows) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(rows.width);
  image.height = static_cast<png_uint_32>(rows.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<uint8_t> encoded(bytes);
  if (png_image_write_to_memory(&image, encoded.data(), &bytes, 0, pixels, 0, nullptr) == 0) {
    throw DataError(std::string("cannot be written as PNG: ") + image.message);
  }
  encoded.resize(bytes);
  return encoded;
}

}  // namespace

void RequirePixels(const RawRows& rows) {
  if (rows.type == ElementType::kUInt8) return;
  throw Error(
      ExitCode::kUsage,
      "the images of this safetensors file are float32: record files hold encoded images of 8 bits, which would "
      "round them",
      "pack uint8 images, or train from the safetensors file as it is");
}

std::vector<uint8_t> EncodePixels(std::span<const uint8_t> row, const RawRows& rows, int quality) {
  std::vector<uint8_t> interleaved;
  if (rows.planar) {
    interleaved.resize(row.size());
    PlanarToInterleaved(row.data(), rows.height, rows.width, interleaved.data());
    row = interleaved;
  }
  if (quality == 0) return WritePng(row.data(), rows);
  // Read only; cv::Mat has no such type.
  const cv::Mat image(static_cast<int>(rows.height), static_cast<int>(rows.width), CV_8UC3,
                      const_cast<uint8_t*>(row.data()));
  return WriteJpeg(image, quality);
}

}  // namespace dtrain::data
