// What each orientation means is held to Pillow's ImageOps.exif_transpose in tests/interop/test_image_preprocessing.py.
#include "data/image/exif_orientation.h"

#include <gmock/gmock.h>

#include <opencv2/core.hpp>

#include "data/image/codecs.h"
#include "tests/data/image/encode.h"

namespace dtrain::data {
namespace {

std::vector<uint8_t> JpegWith(int orientation) {
  // A file with this orientation, from which another one takes it.
  std::vector<uint8_t> original = {0xFF, 0xD8, 0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0,
                                   0,    1,    0,    0x12, 1, 3,  0,   1,   0,   0,   0, 0, 0,   0,   0,  0, 0, 0, 0};
  original[30] = static_cast<uint8_t>(orientation);
  return WithOrientationOf(original, EncodeJpeg(TestPicture(64, 48)));
}

TEST(ExifOrientation, IsWrittenAndReadInBothByteOrders) {
  for (int orientation = 2; orientation <= 8; ++orientation)
    EXPECT_EQ(ExifOrientation(JpegWith(orientation)), orientation);
  EXPECT_EQ(JpegWith(1).size(), EncodeJpeg(TestPicture(64, 48)).size());
  EXPECT_EQ(ExifOrientation(EncodeJpeg(TestPicture(64, 48))), 1);
  const std::vector<uint8_t> of_four_bytes = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 4, 0, 1, 0, 0, 0, 6, 0, 0, 0};
  EXPECT_EQ(OrientationInExif(of_four_bytes), 6);
}

TEST(ExifOrientation, DamagedDataIsUprightAndNeverReadBeyond) {
  const std::vector<uint8_t> whole = JpegWith(6);
  for (size_t size = 0; size < 60; ++size) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const int found = ExifOrientation(cut);
    EXPECT_TRUE(found == 1 || found == 6) << size;
  }
  for (size_t place = 2; place < 40; ++place) {
    for (const int value : {0x00, 0x7F, 0x80, 0xFF}) {
      std::vector<uint8_t> damaged = whole;
      damaged[place] = static_cast<uint8_t>(value);
      const int found = ExifOrientation(damaged);
      EXPECT_TRUE(found >= 1 && found <= 8);
    }
  }
}

// A region that is cut from the stored image and turned is that region of the upright image.
TEST(ExifOrientation, BoxesOfTheUprightImageAreFoundInTheStoredOne) {
  const ImageSize stored{7, 5};
  cv::Mat pixels(stored.height, stored.width, CV_8UC3);
  for (int i = 0; i < stored.width * stored.height; ++i) {
    pixels.at<cv::Vec3b>(i) = cv::Vec3b(static_cast<uint8_t>(i), 0, 0);
  }
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const cv::Mat upright = Upright(pixels.clone(), orientation);
    const ImageSize size = UprightSize(stored, orientation);
    ASSERT_EQ(upright.cols, size.width);
    ASSERT_EQ(upright.rows, size.height);
    const CropBox box{1, 2, 3, 2};
    const CropBox there = StoredBox(box, stored, orientation);
    const cv::Mat region = Upright(pixels(cv::Rect(there.x, there.y, there.width, there.height)).clone(), orientation);
    const cv::Mat wanted = upright(cv::Rect(box.x, box.y, box.width, box.height));
    EXPECT_EQ(cv::norm(region, wanted, cv::NORM_INF), 0) << orientation;
  }
}

}  // namespace
}  // namespace dtrain::data
