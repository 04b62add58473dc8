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

// The expected values are from torchvision 0.26: Resize(n) of such an image.
TEST(ResizeShortSide, TruncatesTheLongSide) {
  struct Case {
    ImageSize image;
    int side;
    ImageSize wanted;
  };
  for (const Case& c :
       {Case{{500, 375}, 256, {341, 256}}, Case{{375, 500}, 256, {256, 341}}, Case{{300, 300}, 256, {256, 256}},
        Case{{28, 28}, 32, {32, 32}}, Case{{1, 65500}, 256, {256, 16768000}}}) {
    EXPECT_EQ(ResizeShortSide(c.image, c.side), c.wanted);
  }
}

TEST(CentreCrop, RoundsHalvesToEvenAndPadsSmallImages) {
  struct Case {
    ImageSize image;
    int size;
    int x, y;
  };
  for (const Case& c : {Case{{341, 256}, 224, 58, 16}, Case{{227, 225}, 224, 2, 0}, Case{{224, 224}, 224, 0, 0},
                        Case{{100, 224}, 224, -62, 0}, Case{{223, 300}, 224, 0, 38}, Case{{221, 300}, 224, -1, 38}}) {
    EXPECT_EQ(CentreCrop(c.image, c.size), (CropBox{c.x, c.y, c.size, c.size}))
        << c.image.width << "×" << c.image.height;
  }
}

}  // namespace
}  // namespace dtrain::data
