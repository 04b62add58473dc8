#include "data/prepare/packed_image.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <opencv2/core/mat.hpp>

#include "data/error.h"
#include "data/image/crop.h"
#include "data/image/decode.h"
#include "data/image/exif_orientation.h"
#include "data/image/png_writer.h"
#include "data/image/resize.h"
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

void UseOneThreadEach() { at::set_num_threads(1); }

std::vector<uint8_t> ShrinkImage(std::vector<uint8_t> encoded, int short_side, int quality) {
  const ImageSize size = ReadImageSize(encoded);
  if (std::min(size.width, size.height) <= short_side) return encoded;
  const c10::InferenceMode inference;
  const ImageSize target = ResizeShortSide(size, short_side);
  const cv::Mat image = Resize(DecodeImage(encoded), target.width, target.height, Interpolation::kBilinear);
  return WithOrientationOf(encoded, WriteJpeg(image, quality));  // the pixels stay as they were stored
}

}  // namespace dtrain::data
