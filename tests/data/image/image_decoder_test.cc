#include "data/image/image_decoder.h"

#include <gtest/gtest.h>

#include <opencv2/core.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "tests/data/image/encode.h"

namespace dtrain::data {
namespace {

std::vector<uint8_t> Decoded(const ImageDecoder& decoder, std::span<const uint8_t> bytes, const SampleRef& sample = {},
                             ImageGeometry* geometry = nullptr) {
  const auto shape = decoder.fields(sample.size)[0].row_shape;
  std::vector<uint8_t> row(static_cast<size_t>(shape[0] * shape[1] * shape[2]), 0xEE);
  int32_t crop[4];
  uint8_t flip = 0;
  const std::span<std::byte> rows[] = {std::as_writable_bytes(std::span(row)), std::as_writable_bytes(std::span(crop)),
                                       std::as_writable_bytes(std::span(&flip, 1))};
  decoder.Decode(bytes, sample, rows);
  if (geometry != nullptr) *geometry = {{crop[0], crop[1], crop[2], crop[3]}, flip == 1};
  return row;
}

cv::Vec3b Pixel(const std::vector<uint8_t>& row, int side, int y, int x) {
  const uint8_t* at = row.data() + 3 * (static_cast<ptrdiff_t>(y) * side + x);
  return {at[0], at[1], at[2]};
}

TEST(ImageDecoder, TrainingTakesTheSizeOfTheSampleAndEvaluationItsOwn) {
  const auto bytes = EncodeJpeg(TestPicture(300, 200));
  const ImageDecoder training({.image_size = 64, .augment = AugmentNamed("trivialaugment")});
  for (const int64_t size : {48, 64, 96}) {
    const ImageDecoder of_this_size({.image_size = size, .augment = AugmentNamed("trivialaugment")});
    EXPECT_EQ(Decoded(training, bytes, {.index = 5, .size = size}), Decoded(of_this_size, bytes, {.index = 5})) << size;
  }
  const ImageDecoder evaluation({.image_size = 64});
  EXPECT_EQ(Decoded(evaluation, bytes, {.size = 96}), Decoded(evaluation, bytes));
}

TEST(ImageDecoder, TrainingDependsOnSeedEpochAndIndexAlone) {
  const auto bytes = EncodeJpeg(TestPicture(300, 200));
  const ImageDecoder one({.image_size = 64, .augment = AugmentNamed("basic"), .seed = 1});
  const ImageDecoder two({.image_size = 64, .augment = AugmentNamed("basic"), .seed = 2});
  const auto row = Decoded(one, bytes, {.index = 5, .epoch = 3});
  EXPECT_EQ(row, Decoded(one, bytes, {.index = 5, .epoch = 3}));
  EXPECT_NE(row, Decoded(one, bytes, {.index = 5, .epoch = 4}));
  EXPECT_NE(row, Decoded(one, bytes, {.index = 6, .epoch = 3}));
  EXPECT_NE(row, Decoded(two, bytes, {.index = 5, .epoch = 3}));
}

TEST(ImageDecoder, EachCropMayDrawItsFilterAndNothingElseChanges) {
  const auto bytes = EncodeJpeg(TestPicture(300, 200));
  const auto options = [](Interpolation filter, bool draws) {
    return ImageDecoderOptions{
        .image_size = 64, .interpolation = filter, .draws_interpolation = draws, .augment = AugmentNamed("basic")};
  };
  const ImageDecoder drawing(options(Interpolation::kBilinear, true));
  const ImageDecoder bilinear(options(Interpolation::kBilinear, false)),
      bicubic(options(Interpolation::kBicubic, false));
  int bicubics = 0;
  for (int64_t i = 0; i < 64; ++i) {
    const auto row = Decoded(drawing, bytes, {.index = i});
    const bool is_bicubic = row == Decoded(bicubic, bytes, {.index = i});
    EXPECT_TRUE(is_bicubic || row == Decoded(bilinear, bytes, {.index = i})) << i;
    bicubics += is_bicubic ? 1 : 0;
  }
  EXPECT_GT(bicubics, 16);
  EXPECT_LT(bicubics, 48);
}

TEST(ImageDecoder, NativeCropsHaveTheImagesPixels) {
  using Place = ImageDecoderOptions::Place;
  const cv::Mat picture = TestPicture(90, 70);
  const RawRows rows{.type = ElementType::kUInt8, .height = 70, .width = 90};
  ImageGeometry geometry;
  const auto decoded = [&](Place place, const char* augment, int64_t index) {
    const ImageDecoder decoder({.image_size = 16, .augment = AugmentNamed(augment), .native = place}, rows);
    return Decoded(decoder, {picture.data, 3 * picture.total()}, {.index = index}, &geometry);
  };
  std::set<std::pair<int, int>> places;
  int mirrored = 0;
  for (int64_t index = 0; index < 200; ++index) {
    const auto row = decoded(Place::kRandom, "basic", index);
    const auto [x, y, width, height] = geometry.crop;
    places.insert({x, y});
    mirrored += geometry.flip ? 1 : 0;
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(Pixel(row, 16, 3, i), picture.at<cv::Vec3b>(y + 3, geometry.flip ? x + 15 - i : x + i));
    }
  }
  EXPECT_GT(places.size(), 180U);  // of 75 × 55
  EXPECT_NEAR(mirrored, 100, 30);
  for (const auto& [place, augment] : {std::pair(Place::kRandom, "none"), std::pair(Place::kCentre, "basic")}) {
    decoded(place, augment, 3);
    EXPECT_EQ(geometry.crop, (CropBox{37, 27, 16, 16}));
  }
}

TEST(ImageDecoder, PlanarRowsAreTransposed) {
  std::vector<uint8_t> planar(3 * 4 * 4);
  for (size_t i = 0; i < planar.size(); ++i) planar[i] = static_cast<uint8_t>(i);
  const RawRows rows{.type = ElementType::kUInt8, .height = 4, .width = 4, .planar = true};
  const auto row = Decoded(ImageDecoder({.image_size = 4, .eval_resize = 4}, rows), planar);
  EXPECT_EQ(Pixel(row, 4, 1, 2), cv::Vec3b(6, 22, 38));
}

TEST(ImageDecoder, RefusesWhatItCannotDo) {
  const ImageDecoder decoder({.image_size = 32});
  EXPECT_THROW(Decoded(decoder, std::vector<uint8_t>{}), DataError);
  const RawRows floats{.type = ElementType::kFloat32, .height = 4, .width = 4, .planar = true};
  EXPECT_THROW(ImageDecoder({.image_size = 4}, floats), DataError);
  EXPECT_THROW(AugmentNamed("auto"), std::invalid_argument);
  // 1 × 65,500 pixels would become 37 × 2,423,500; at 224, 256 × 16,768,000.
  const auto thin = EncodeJpeg(cv::Mat(65500, 1, CV_8UC3, cv::Scalar(1, 2, 3)));
  EXPECT_THROW(Decoded(ImageDecoder({.image_size = 224}), thin), DataError);
}

TEST(Resize, ToTheSameSizeIsACopy) {
  const cv::Mat picture = TestPicture(30, 20);
  const cv::Mat same = Resize(picture, 30, 20, Interpolation::kBilinear);
  EXPECT_EQ(cv::norm(same, picture, cv::NORM_INF), 0);
  EXPECT_NE(same.data, picture.data);
}

}  // namespace
}  // namespace dtrain::data
