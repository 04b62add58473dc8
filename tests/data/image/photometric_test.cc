// Tests the distributions of the draws. The operators themselves are compared with torchvision's in tests/interop.
#include "data/image/photometric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

#include "data/image/augment_policy.h"
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
  using Policy = void (*)(PixelView, const PolicySettings&, RandomGenerator&);
  for (const Policy policy : {Policy{RandAugment}, Policy{TrivialAugment}, Policy{AutoAugment}}) {
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
  EXPECT_THROW(OperatorFromName("Shear"), std::invalid_argument);
}

// torch.linspace(0, 32, 31)[15] is 15.999999, whose int() is 15.
TEST(Policies, MagnitudesAreRoundedAsTorchRoundsThem) {
  EXPECT_EQ(std::trunc(TrivialMagnitude(Operator::kTranslateX, 15)), 15);
  EXPECT_EQ(std::trunc(TrivialMagnitude(Operator::kTranslateY, 30)), 32);
  EXPECT_FLOAT_EQ(static_cast<float>(TrivialMagnitude(Operator::kRotate, 20)), 90);
  EXPECT_EQ(TrivialMagnitude(Operator::kSolarize, 0), 255);
}

}  // namespace
}  // namespace dtrain::data
