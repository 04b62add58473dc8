#include "trainer/tasks/picture_grid.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <opencv2/core/mat.hpp>

#include "data/image/codecs.h"

namespace dtrain::tasks {
namespace {

cv::Mat Decoded(const report::Picture& picture) {
  return data::DecodeImage({reinterpret_cast<const uint8_t*>(picture.png.data()), picture.png.size()});
}

TEST(PictureGrid, PutsImagesInRows) {
  const at::Tensor images = at::arange(1, 11).view({10, 1, 1, 1}).mul(20).expand({10, 3, 5, 3}).to(at::kByte);
  const report::Picture picture = PictureGrid(images);
  EXPECT_EQ(picture.width, 8 * 5 + 7 * 2);
  EXPECT_EQ(picture.height, 2 * 3 + 2);
  const cv::Mat pixels = Decoded(picture);
  ASSERT_EQ(pixels.cols, picture.width);
  ASSERT_EQ(pixels.rows, picture.height);
  const auto at = [&](int x, int y) { return static_cast<int>(pixels.at<cv::Vec3b>(y, x)[0]); };
  EXPECT_EQ(at(0, 0), 20);
  EXPECT_EQ(at(4, 2), 20);
  EXPECT_EQ(at(5, 0), 0);  // the gap
  EXPECT_EQ(at(7, 0), 40);
  EXPECT_EQ(at(0, 5), 9 * 20);  // an image in the second row
  EXPECT_EQ(at(53, 7), 0);      // no image there
}

TEST(PictureGrid, HasSixtyFourAtMost) {
  EXPECT_EQ(PictureGrid(at::zeros({100, 4, 4, 3}, at::kByte)).height, 8 * 4 + 7 * 2);
  const report::Picture one = PictureGrid(at::full({1, 4, 6, 3}, 7, at::kByte));
  EXPECT_EQ(one.width, 6);
  EXPECT_EQ(one.height, 4);
}

}  // namespace
}  // namespace dtrain::tasks
