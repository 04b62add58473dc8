// Tests the distributions of the draws. The operators themselves are compared with torchvision's in tests/interop.
#include "data/image/photometric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

#include "data/image/augment_policy.h"
#include "data/image/crop.h"
#include "data/image/mix.h"

namespace dtrain::data {
namespace {

TEST(RandomErasing, BoxesAreInsideAndOfTheRightArea) {
  RandomGenerator random(RandomKey{.seed = 1});
  double area = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const CropBox box = RandomErasingBox({224, 224}, {}, 1, random);
    ASSERT_TRUE(box.x >= 0 && box.y >= 0 && box.x + box.width <= 224 && box.y + box.height <= 224);
    area += static_cast<double>(box.width) * box.height / (224 * 224);
  }
  EXPECT_NEAR(area / kDraws, 0.175, 0.01);  // the mean of 0.02 … 0.33
}

TEST(Photometric, OffLeavesPixelsAlone) {
  std::vector<uint8_t> pixels(3 * 8 * 8, 77);
  const auto before = pixels;
  RandomGenerator random(RandomKey{});
  ApplyPhotometric({pixels.data(), 8, 8}, {}, random);
  EXPECT_EQ(pixels, before);
}

// A draw and four times another, of five: uniform draws have a variance of 1/12.
TEST(Photometric, HlsJitterRarelyReachesItsExtremes) {
  RandomGenerator random(RandomKey{.seed = 3});
  double squares = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    uint8_t pixels[] = {128, 128, 128};
    ApplyPhotometric({pixels, 1, 1}, {.hls_jitter = {0, 100, 0}}, random);
    ASSERT_LE(std::abs(pixels[0] - 128), 100);
    squares += std::pow(pixels[0] - 128, 2);
  }
  EXPECT_NEAR(std::sqrt(squares / kDraws), 100 * 2 * std::sqrt(17.0 / 12 / 25), 2);
}

TEST(Photometric, ErasesWithTheMeanAsOftenAsAsked) {
  RandomGenerator random(RandomKey{.seed = 2});
  int erased = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> pixels(3 * 32 * 32, 0);
    ApplyPhotometric({pixels.data(), 32, 32}, {.erasing = {.probability = 0.25, .mean = {9, 8, 7}}}, random);
    erased += std::count(pixels.begin(), pixels.end(), 8) > 0 ? 1 : 0;
  }
  EXPECT_NEAR(erased, 250, 45);
}

TEST(Policies, DrawManyDifferentOperators) {
  for (const char* name : {"randaugment", "trivialaugment", "autoaugment"}) {
    const auto policy = AugmentNamed(name).policy;
    std::set<std::vector<uint8_t>> results;
    for (int64_t i = 0; i < 200; ++i) {
      std::vector<uint8_t> pixels(3 * 16 * 16);
      for (size_t p = 0; p < pixels.size(); ++p) pixels[p] = static_cast<uint8_t>(p * 53);
      RandomGenerator random(RandomKey{.sample = i});
      policy({pixels.data(), 16, 16}, {.between = Between::kBilinear}, random);
      results.insert(pixels);
    }
    EXPECT_GT(results.size(), 20U);
  }
  EXPECT_THROW(TrivialMagnitude("NoSuchOperator", 0), std::invalid_argument);
}

// torch.linspace(0, 32, 31)[15] is 15.999999, whose int() is 15.
TEST(Policies, MagnitudesAreRoundedAsTorchRoundsThem) {
  EXPECT_EQ(std::trunc(TrivialMagnitude("TranslateX", 15)), 15);
  EXPECT_EQ(std::trunc(TrivialMagnitude("TranslateY", 30)), 32);
  EXPECT_FLOAT_EQ(static_cast<float>(TrivialMagnitude("Rotate", 20)), 90);
  EXPECT_EQ(TrivialMagnitude("Solarize", 0), 255);
}

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
