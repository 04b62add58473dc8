#include "data/image/crop.h"

#include <gtest/gtest.h>

#include <vector>

namespace dtrain::data {
namespace {

TEST(RandomResizedCrop, StaysInsideAndKeepsTheLaw) {
  for (const ImageSize size : {ImageSize{500, 375}, ImageSize{375, 500}, ImageSize{33, 1000}, ImageSize{1, 1}}) {
    for (int64_t sample = 0; sample < 500; ++sample) {
      RandomGenerator random({.sample = sample});
      const CropBox box = RandomResizedCrop(size, {}, random);
      ASSERT_TRUE(box.width >= 1 && box.height >= 1 && box.x >= 0 && box.y >= 0);
      ASSERT_TRUE(box.x + box.width <= size.width && box.y + box.height <= size.height);
      if (size.width < 375) continue;
      const double ratio = static_cast<double>(box.width) / box.height;
      const double scale = static_cast<double>(box.width) * box.height / (size.width * size.height);
      EXPECT_TRUE(ratio > 0.74 && ratio < 1.35) << ratio;
      EXPECT_TRUE(scale > 0.079 && scale <= 1.0) << scale;
    }
  }
}

TEST(RandomResizedCrop, FallsBackToTheCentre) {
  // No crop with an allowed ratio and 8 % of the area fits into these images.
  RandomGenerator random(RandomKey{});
  EXPECT_EQ(RandomResizedCrop({10, 1000}, {}, random), (CropBox{0, 493, 10, 13}));
  EXPECT_EQ(RandomResizedCrop({1000, 10}, {}, random), (CropBox{493, 0, 13, 10}));
}

TEST(RandomResizedCrop, KeepsOtherLaws) {
  for (int64_t sample = 0; sample < 500; ++sample) {
    RandomGenerator random({.sample = sample});
    const CropBox box = RandomResizedCrop({500, 375}, {.scale = {0.35, 0.5}, .ratio = {1, 1}}, random);
    EXPECT_EQ(box.width, box.height);
    EXPECT_TRUE(box.width > 255 && box.width < 308) << box.width;  // the roots of 0.35 and 0.5 of the area
  }
  RandomGenerator random(RandomKey{});
  EXPECT_EQ(RandomResizedCrop({500, 375}, {.scale = {1, 1}, .ratio = {1, 1}}, random), (CropBox{62, 0, 375, 375}));
}

TEST(RandomFlip, HasItsProbability) {
  for (const double probability : {0.0, 0.2, 0.5, 1.0}) {
    int flips = 0;
    for (int64_t sample = 0; sample < 10000; ++sample) {
      RandomGenerator random({.sample = sample});
      flips += RandomFlip(probability, random) ? 1 : 0;
    }
    EXPECT_NEAR(flips, 10000 * probability, probability > 0 && probability < 1 ? 200 : 0);
  }
}

}  // namespace
}  // namespace dtrain::data
