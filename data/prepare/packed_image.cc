#include "data/prepare/packed_image.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

// jpeglib.h uses FILE and size_t without including them.
#include <jpeglib.h>

#include "data/error.h"
#include "data/image/codecs.h"
#include "data/image/crop.h"
#include "data/image/exif_orientation.h"
#include "data/image/jpeg/baseline_header.h"
#include "data/image/resample.h"

namespace dtrain::data {
namespace {

// Throwing through libjpeg is safe: it is compiled with unwind tables, and the objects on the way are destroyed by
// RAII.
[[noreturn]] void ThrowError(j_common_ptr jpeg) {
  char message[JMSG_LENGTH_MAX];
  (*jpeg->err->format_message)(jpeg, message);
  throw DataError(std::string("cannot be written as JPEG: ") + message);
}

void ThrowAtDamage(j_common_ptr jpeg, int level) {
  if (level == -1) ThrowError(jpeg);  // -1 is a warning; other levels are traces
}

class Compressor : public jpeg_compress_struct {
 public:
  Compressor() : jpeg_compress_struct{} {
    err = jpeg_std_error(&errors_);
    errors_.error_exit = ThrowError;
    jpeg_create_compress(this);
    jpeg_mem_dest(this, &buffer_, &bytes_);
  }
  ~Compressor() {
    jpeg_destroy_compress(this);
    std::free(buffer_);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg's
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  std::vector<uint8_t> Finish() {
    jpeg_finish_compress(this);
    return {buffer_, buffer_ + bytes_};
  }

 private:
  jpeg_error_mgr errors_{};
  unsigned char* buffer_ = nullptr;
  unsigned long bytes_ = 0;
};

class Decompressor : public jpeg_decompress_struct {
 public:
  explicit Decompressor(std::span<const uint8_t> jpeg) : jpeg_decompress_struct{} {
    err = jpeg_std_error(&errors_);
    errors_.error_exit = ThrowError;
    errors_.emit_message = ThrowAtDamage;
    jpeg_create_decompress(this);
    jpeg_mem_src(this, jpeg.data(), static_cast<unsigned long>(jpeg.size()));
  }
  ~Decompressor() { jpeg_destroy_decompress(this); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

 private:
  jpeg_error_mgr errors_{};
};

// Encodes a CV_8UC3 image (RGB) with 4:2:0 colour. Throws DataError if it cannot be written.
std::vector<uint8_t> WriteJpeg(const cv::Mat& image, int quality) {
  Compressor to;
  to.image_width = static_cast<JDIMENSION>(image.cols);
  to.image_height = static_cast<JDIMENSION>(image.rows);
  to.input_components = 3;
  to.in_color_space = JCS_RGB;
  jpeg_set_defaults(&to);
  jpeg_set_quality(&to, quality, TRUE);
  to.optimize_coding = TRUE;  // a few percent smaller, decoded as fast
  jpeg_start_compress(&to, TRUE);
  while (to.next_scanline < to.image_height) {
    auto* row = const_cast<JSAMPLE*>(image.ptr<uint8_t>(static_cast<int>(to.next_scanline)));
    jpeg_write_scanlines(&to, &row, 1);
  }
  return to.Finish();
}

// Returns the same coefficients, hence the same pixels, as a baseline file. A progressive file becomes about a tenth
// larger and decodes in half the time. Metadata are left out. Throws DataError if the file is damaged.
std::vector<uint8_t> RewriteAsBaseline(std::span<const uint8_t> jpeg) {
  Decompressor from(jpeg);
  jpeg_read_header(&from, TRUE);
  jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&from);
  Compressor to;
  jpeg_copy_critical_parameters(&from, &to);
  to.optimize_coding = TRUE;
  jpeg_write_coefficients(&to, coefficients);
  return to.Finish();
}

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
