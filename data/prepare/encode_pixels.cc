#include "data/prepare/encode_pixels.h"

#include <opencv2/core/mat.hpp>

#include "data/error.h"
#include "data/image/png_writer.h"
#include "data/prepare/jpeg_writer.h"

namespace dtrain::data {

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
  if (quality == 0) return WritePng(row.data(), rows.width, rows.height);
  // The pixels are only read, but cv::Mat cannot refer to const data.
  const cv::Mat image(static_cast<int>(rows.height), static_cast<int>(rows.width), CV_8UC3,
                      const_cast<uint8_t*>(row.data()));
  return WriteJpeg(image, quality);
}

}  // namespace dtrain::data
