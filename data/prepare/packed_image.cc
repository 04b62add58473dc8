#include "data/prepare/packed_image.h"

#include <algorithm>
#include <opencv2/core.hpp>

#include "data/error.h"
#include "data/image/codecs.h"
#include "data/image/crop.h"
#include "data/image/exif_orientation.h"
#include "data/image/jpeg/baseline_header.h"
#include "data/image/resample.h"

namespace dtrain::data {
namespace {

// Resizes with the antialiased filter of training. LibTorch has it, too (data/image/image_decoder.h), but takes longer
// to load than most commands take to run.
cv::Mat Shrunk(const cv::Mat& image, ImageSize target) {
  const auto weights = [](int from, int to) {
    return MakeResampleWeights(0, from, from, to, Interpolation::kBilinear, /*mirror=*/false);
  };
  const ResampleWeights across = weights(image.cols, target.width), down = weights(image.rows, target.height);
  const auto resized = [](const cv::Mat& rows, const ResampleWeights& by) {
    cv::Mat result(static_cast<int>(by.first.size()), rows.cols, CV_8U);
    ResampleRows(rows.data, rows.rows, static_cast<ptrdiff_t>(rows.step), rows.cols, by, result.data,
                 static_cast<ptrdiff_t>(result.step));
    return result;
  };
  std::vector<cv::Mat> planes;
  cv::split(image, planes);
  for (cv::Mat& plane : planes) plane = resized(resized(plane.t(), across).t(), down);
  cv::Mat all;
  cv::merge(planes, all);
  return all;
}

}  // namespace

std::vector<uint8_t> MakeSeekable(std::vector<uint8_t> encoded) {
  const bool is_jpeg = encoded.size() > 2 && encoded[0] == 0xFF && encoded[1] == 0xD8;
  if (!is_jpeg) return encoded;
  if (!ReadBaselineHeader(encoded)) {
    try {
      ReadImageSize(encoded);  // throws if decoding would need too much memory
      std::vector<uint8_t> baseline = WithOrientationOf(encoded, RewriteAsBaseline(encoded));
      if (ReadBaselineHeader(baseline)) encoded = std::move(baseline);
    } catch (const DataError&) {
      return encoded;  // decoding it later reports the damage
    }
  }
  return AddSeekPoints(std::move(encoded));
}

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

std::vector<uint8_t> ShrinkImage(std::vector<uint8_t> encoded, int short_side, int quality) {
  const ImageSize size = ReadImageSize(encoded);
  if (std::min(size.width, size.height) <= short_side) return encoded;
  const cv::Mat image = Shrunk(DecodeImage(encoded), ResizeShortSide(size, short_side));
  return WithOrientationOf(encoded, WriteJpeg(image, quality));  // the pixels stay as they were stored
}

}  // namespace dtrain::data
