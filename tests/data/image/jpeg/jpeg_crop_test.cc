// Restart markers and seek points, and what the fast decoder of baseline JPEGs leaves to libjpeg. Its pixels are
// compared in jpeg_differential_test.cc, and with Pillow's in tests/interop/test_loader.py.
#include "data/image/jpeg/baseline_header.h"

#include <gtest/gtest.h>

#include <opencv2/core.hpp>

#include "data/image/codecs.h"
#include "data/image/resample.h"
#include "tests/data/image/encode.h"

namespace dtrain::data {
namespace {

// Returns nothing if the fast decoder does not take the file.
std::vector<uint8_t> Crop(std::span<const uint8_t> bytes, const CropBox& box, int side) {
  const auto header = ReadBaselineHeader(bytes);
  std::vector<uint8_t> row(3 * static_cast<size_t>(side) * side);
  if (!header || !CropBaselineJpeg(*header, box, /*flip=*/false, Interpolation::kBilinear, side, row.data())) return {};
  return row;
}

const CropBox kBoxes[] = {{0, 0, 333, 251}, {200, 150, 100, 90}, {3, 200, 50, 51}, {130, 0, 1, 1}, {331, 249, 2, 2}};

TEST(JpegCrop, RestartMarkersAndSeekPointsChangeNothing) {
  const cv::Mat picture = TestPicture(333, 251);
  for (const bool subsample : {false, true}) {
    const auto plain = EncodeJpeg(picture, {.quality = 98, .subsample = subsample});
    const auto marked = EncodeJpeg(picture, {.quality = 98, .subsample = subsample, .restart_rows = 1});
    const auto seekable = AddSeekPoints(plain);
    ASSERT_GT(seekable.size(), plain.size());
    for (const CropBox& box : kBoxes) {
      const auto row = Crop(plain, box, 48);
      ASSERT_FALSE(row.empty());
      EXPECT_EQ(Crop(marked, box, 48), row);
      EXPECT_EQ(Crop(seekable, box, 48), row);
    }
  }
}

TEST(SeekPoints, GreyAndLarge) {
  cv::Mat grey, large(1700, 2100, CV_8UC3, cv::Scalar(90, 20, 200));
  cv::extractChannel(TestPicture(333, 251), grey, 1);
  cv::randu(large(cv::Rect(1000, 800, 400, 400)), 0, 255);
  for (const cv::Mat& picture : {grey, large}) {
    const auto plain = EncodeJpeg(picture, {.subsample = false});
    const auto header = ReadBaselineHeader(AddSeekPoints(plain));
    ASSERT_TRUE(header && header->seek_points);
    EXPECT_EQ(header->seek_points->units, picture.cols > 1000 ? 8 : 4);  // all points must fit into one segment
    for (const CropBox& box : kBoxes) EXPECT_EQ(Crop(AddSeekPoints(plain), box, 48), Crop(plain, box, 48));
  }
}

TEST(SeekPoints, ArePutIntoPlainFilesOnce) {
  const cv::Mat picture = TestPicture(120, 90);
  const auto seekable = AddSeekPoints(EncodeJpeg(picture));
  EXPECT_EQ(AddSeekPoints(seekable), seekable);
  for (const auto& other : {EncodeJpeg(picture, {.progressive = true}), EncodeJpeg(picture, {.restart_rows = 1}),
                            std::vector<uint8_t>{1, 2, 3}}) {
    EXPECT_EQ(AddSeekPoints(other), other);
  }
}

// A tool may have copied seek points to an image that it changed.
TEST(SeekPoints, OfAnotherImageDoNotCount) {
  const auto one = AddSeekPoints(EncodeJpeg(TestPicture(120, 90)));
  const auto other = EncodeJpeg(TestPicture(120, 90), {.quality = 80});
  const auto header = ReadBaselineHeader(one), other_header = ReadBaselineHeader(other);
  ASSERT_TRUE(header && header->seek_points && other_header);
  auto mixed = other;
  // both headers have the same length
  const auto segment = one.begin() + static_cast<ptrdiff_t>(other_header->scan_header);
  ASSERT_EQ(segment[1], kSeekPointsMarker);
  mixed.insert(mixed.begin() + static_cast<ptrdiff_t>(other_header->scan_header), segment,
               one.begin() + static_cast<ptrdiff_t>(header->scan_header));
  const auto mixed_header = ReadBaselineHeader(mixed);
  ASSERT_TRUE(mixed_header);
  EXPECT_FALSE(mixed_header->seek_points);
  EXPECT_EQ(Crop(mixed, {20, 30, 60, 40}, 16), Crop(other, {20, 30, 60, 40}, 16));
}

TEST(SeekPoints, DamagedOnesDoNotCount) {
  const auto plain = EncodeJpeg(TestPicture(120, 90)), seekable = AddSeekPoints(plain);
  const size_t added = seekable.size() - plain.size(), at = ReadBaselineHeader(seekable)->scan_header - added;
  for (size_t i = at + 4; i < at + added; ++i) {
    auto damaged = seekable;
    damaged[i] ^= 1;
    const auto header = ReadBaselineHeader(damaged);
    ASSERT_TRUE(header);
    ASSERT_FALSE(header->seek_points) << i - at;
  }
}

TEST(JpegCrop, LeavesTheUnusualToLibjpeg) {
  const cv::Mat picture = TestPicture(64, 48);
  EXPECT_TRUE(Crop(EncodeJpeg(picture, {.progressive = true}), {0, 0, 8, 8}, 8).empty());
  EXPECT_TRUE(Crop(EncodeJpeg(cv::Mat(48, 64, CV_8UC4, cv::Scalar(1, 2, 3, 4))), {0, 0, 8, 8}, 8).empty());
  auto truncated = EncodeJpeg(picture);
  truncated.resize(truncated.size() / 2);
  EXPECT_TRUE(Crop(truncated, {0, 0, 8, 8}, 8).empty());
  truncated.insert(truncated.end(), {0xFF, 0xD9});
  EXPECT_TRUE(Crop(truncated, {0, 0, 64, 48}, 8).empty());
}

}  // namespace
}  // namespace dtrain::data
