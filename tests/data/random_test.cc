#include "data/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace dtrain::data {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers of the authors' implementation: Random123, tests/kat_vectors, philox4x32 10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomGenerator, EveryPartOfTheKeyCounts) {
  const RandomKey base{.seed = 1, .epoch = 2, .sample = 3, .repeat = 4, .stream = RandomStream::kAugment};
  std::vector<RandomKey> keys(8, base);
  keys[1].seed = 7;
  keys[2].seed = int64_t{1} << 40 | 1;
  keys[3].epoch = 3;
  keys[4].sample = 4;
  keys[5].sample = int64_t{1} << 40 | 3;
  keys[6].repeat = 5;
  keys[7].stream = RandomStream::kReplacement;
  std::set<uint64_t> draws;
  for (const RandomKey& key : keys) draws.insert(RandomGenerator(key).Next64());
  EXPECT_EQ(draws.size(), keys.size());
  EXPECT_EQ(RandomGenerator(base).Next64(), RandomGenerator(base).Next64());
}

TEST(RandomGenerator, RangesAndMeans) {
  RandomGenerator random(RandomKey{.seed = 5});
  double sum_float = 0, sum_double = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const float a = random.UniformFloat();
    const double b = random.Uniform(-2, 4);
    ASSERT_TRUE(a >= 0 && a < 1);
    ASSERT_TRUE(b >= -2 && b < 4);
    sum_float += a;
    sum_double += b;
  }
  EXPECT_NEAR(sum_float / kDraws, 0.5, 0.02);
  EXPECT_NEAR(sum_double / kDraws, 1.0, 0.1);
}

TEST(RandomGenerator, BelowIsInRangeAndEven) {
  RandomGenerator random(RandomKey{.seed = 6});
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(static_cast<size_t>(random.Below(7)));
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
  for (const int64_t n : {int64_t{1}, int64_t{1} << 32, (int64_t{1} << 32) + 1, INT64_MAX}) {
    for (int i = 0; i < 100; ++i) {
      const int64_t value = random.Below(n);
      ASSERT_TRUE(value >= 0 && value < n) << value << " of " << n;
    }
  }
}

TEST(RandomGenerator, BelowNothingIsAnErrorByName) {
  for (const int64_t n : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    EXPECT_THROW(RandomGenerator(RandomKey{}).Below(n), std::invalid_argument) << n;
  }
}

TEST(Permutation, IsOneAndDependsOnSeedAndEpoch) {
  for (const int64_t n : {0, 1, 2, 1000}) {
    std::vector<int64_t> order = Permutation(n, 3, 1);
    EXPECT_EQ(order, Permutation(n, 3, 1));
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
  EXPECT_NE(Permutation(1000, 3, 1), Permutation(1000, 3, 2));
  EXPECT_NE(Permutation(1000, 3, 1), Permutation(1000, 4, 1));
}

}  // namespace
}  // namespace dtrain::data
