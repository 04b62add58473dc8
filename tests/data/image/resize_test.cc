#include "data/image/resize.h"

#include <gtest/gtest.h>

#include <opencv2/core.hpp>
#include <stdexcept>

#include "tests/data/image/encode.h"

namespace dtrain::data {
namespace {

TEST(Resize, ToTheSameSizeIsACopy) {
  const cv::Mat picture = TestPicture(30, 20);
  const cv::Mat same = Resize(picture, 30, 20, Interpolation::kBilinear);
  EXPECT_EQ(cv::norm(same, picture, cv::NORM_INF), 0);
  EXPECT_NE(same.data, picture.data);
}

TEST(Resize, StridedRowsAreLikeDenseOnes) {
  const cv::Mat picture = TestPicture(100, 80);
  const cv::Mat part = picture(cv::Rect(13, 7, 60, 50));
  for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    for (const auto& [width, height] : {std::pair{20, 30}, {90, 70}, {1, 1}}) {
      const cv::Mat a = Resize(part, width, height, interpolation);
      const cv::Mat b = Resize(part.clone(), width, height, interpolation);
      ASSERT_EQ(a.size(), cv::Size(width, height));
      EXPECT_EQ(cv::norm(a, b, cv::NORM_INF), 0);
    }
  }
}

TEST(InterpolationFromName, IsTheFlagValue) {
  EXPECT_EQ(InterpolationFromName("bicubic"), Interpolation::kBicubic);
  EXPECT_THROW(InterpolationFromName("nearest"), std::invalid_argument);
}

}  // namespace
}  // namespace dtrain::data
