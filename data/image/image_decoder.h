// Decodes an image into one square row of a batch: a random crop, resized and perhaps mirrored, for training; the
// centre crop for evaluation. For a random crop, only its region is decoded if the format allows it. Native crops have
// the image's own pixels, as those of MXNet's ImageRecordIter (src/io/image_aug_default.cc of 1.9.1), which OpenCV
// computes there and here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/formats/raw_rows.h"
#include "data/image/augment_policy.h"
#include "data/image/crop.h"
#include "data/image/photometric.h"
#include "data/image/pixel_ops.h"
#include "data/image/resample.h"
#include "data/record_source.h"

namespace cv {
class Mat;
}

namespace dtrain::data {

// Resizes `image` (CV_8UC3, rows may be strided) to width × height, antialiased, by ATen's uint8 kernels: the filter of
// torchvision (and Pillow) to the bit, and several times faster than OpenCV's INTER_AREA. Returns a continuous image
// that owns its pixels. Callers in worker threads set at::set_num_threads(1) once.
cv::Mat Resize(const cv::Mat& image, int width, int height, Interpolation interpolation);

struct ImageDecoderOptions {
  int64_t image_size = 224;  // pixels; for evaluation, and for samples that ask for no other size
  int64_t eval_resize = 0;   // short side, pixels; 0: image_size / 0.875, rounded
  Interpolation interpolation = Interpolation::kBilinear;
  bool draws_interpolation = false;  // each random crop draws one of the two instead
  Augment augment = AugmentNamed("none");
  RandomCropOptions crop = {};  // if `augment` crops
  enum class Place { kResized, kRandom, kCentre };
  Place native = Place::kResized;               // of native crops in training
  std::array<double, 2> native_scale = {1, 1};  // least and greatest, above 0, of what is cropped in training
  PolicySettings policy = {};                   // of `augment`
  PhotometricOptions photometric = {};          // of crops only
  bool exif_orientation = false;                // turns images upright first (exif_orientation.h)
  int64_t seed = 0;
};

// The fields of a row are `images`, uint8 S×S×3, RGB; `crop`, int32 4: x, y, width, height in pixels of the
// source, or of the upright source with exif_orientation; and `flip`, uint8: 1 if mirrored. For random crops S is the
// size that a sample asks for, otherwise image_size.
class ImageDecoder : public SampleDecoder {
 public:
  // Records are image files of a codec in codecs.cc, recognised by content.
  explicit ImageDecoder(const ImageDecoderOptions& options);
  // Records are raw uint8 pixels, all of the shape in `rows`. Throws DataError if `rows` are float32.
  ImageDecoder(const ImageDecoderOptions& options, const RawRows& rows);

  std::vector<Field> fields(int64_t size) const override;
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override;

 private:
  int SideOf(int64_t size) const;
  bool IsNative() const { return options_.native != ImageDecoderOptions::Place::kResized; }
  cv::Mat WholeImage(std::span<const uint8_t> bytes) const;  // upright
  ImageGeometry DecodeNative(std::span<const uint8_t> bytes, const SampleRef& sample, uint8_t* row) const;
  ImageGeometry DecodeCentre(std::span<const uint8_t> bytes, uint8_t* row) const;
  RandomKey KeyOf(const SampleRef& sample, RandomStream stream) const;
  void ChangePixels(const SampleRef& sample, uint8_t* row) const;
  int OrientationOf(std::span<const uint8_t> bytes) const;  // 1 (upright) without exif_orientation
  Interpolation FilterOf(const SampleRef& sample) const;
  ImageGeometry DrawGeometry(ImageSize image, const SampleRef& sample) const;
  ImageGeometry DecodeRandomCrop(std::span<const uint8_t> bytes, const SampleRef& sample, uint8_t* row) const;

  ImageDecoderOptions options_;
  std::optional<RawRows> raw_rows_;
};

}  // namespace dtrain::data
