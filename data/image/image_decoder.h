// Encoded image → one square row of pixels: for training a random crop, resized and perhaps mirrored; for evaluation
// the centre. Only the region that the crop needs is decoded where the format allows it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/formats/raw_rows.h"
#include "data/image/crop.h"
#include "data/image/photometric.h"
#include "data/image/pixel_ops.h"
#include "data/image/resize.h"
#include "data/sample_decoder.h"

namespace dtrain::data {

enum class Augment {
  kNone,         // short side to eval_resize, centre crop of image_size: as in evaluation
  kBasic,        // torchvision's RandomResizedCrop(image_size) and RandomHorizontalFlip
  kRandAugment,  // kBasic and then what augment_policy.h says
  kTrivialAugment,
  kAutoAugment,
};

// The values of --augment (auto is the trainer's to resolve). Throws std::invalid_argument on any other word.
Augment AugmentFromName(std::string_view name);  // none | basic | randaugment | trivialaugment | autoaugment

struct ImageDecoderOptions {
  int64_t image_size = 224;  // pixels; for samples that ask for no other
  int64_t eval_resize = 0;   // short side, pixels; 0: image_size / 0.875, rounded
  Interpolation interpolation = Interpolation::kBilinear;
  Augment augment = Augment::kNone;
  Between augment_between = Between::kNearest;  // of the last three
  PhotometricOptions photometric = {};          // not with kNone
  int64_t seed = 0;
  bool defer = false;  // leaves plain baseline JPEGs to a device; with kBasic and nothing photometric
};

// Fields: `images` uint8 S×S×3, RGB, where S is the size that a sample asks for, in random crops, and image_size else;
// `crop` int32 4: x, y, width, height in source pixels; `flip` uint8: mirrored or not.
class ImageDecoder : public SampleDecoder {
 public:
  // Records are image files (JPEG, PNG, BMP, PNM, TIFF, WebP: recognised by content).
  explicit ImageDecoder(const ImageDecoderOptions& options);
  // Records are raw uint8 pixels of one size. Throws DataError for float32 rows.
  ImageDecoder(const ImageDecoderOptions& options, const RawRows& rows);

  std::vector<Field> fields(int64_t size) const override;
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override;
  std::any Defer(std::span<const uint8_t> bytes, const SampleRef& sample,
                 std::span<const std::span<std::byte>> rows) const override;

 private:
  int SideOf(int64_t size) const;
  ImageGeometry DecodeCentre(std::span<const uint8_t> bytes, uint8_t* row) const;
  RandomKey KeyOf(const SampleRef& sample, RandomStream stream) const;
  void ChangePixels(const SampleRef& sample, uint8_t* row) const;
  ImageGeometry DrawGeometry(ImageSize image, const SampleRef& sample) const;
  ImageGeometry DecodeRandomCrop(std::span<const uint8_t> bytes, const SampleRef& sample, uint8_t* row) const;

  ImageDecoderOptions options_;
  std::optional<RawRows> raw_rows_;
};

}  // namespace dtrain::data
