
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "data/error.h"
#include "data/pipeline/sampler.h"

namespace dtrain::data {
namespace {

// 60 samples of class 0, 7 of class 5, and a single one of class 2.
std::vector<int64_t> Labels() {
  std::vector<int64_t> labels(60, 0);
  labels.insert(labels.end(), 7, 5);
  labels.push_back(2);
  return labels;
}

TEST(BalancedOrder, EachClassOccursEquallyOftenInEachEpochAndInAll) {
  const std::vector<int64_t> labels = Labels();
  const BalancedOrder order(labels);
  std::map<int64_t, int64_t> of_class;
  std::map<int64_t, int64_t> of_sample;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const auto places = order.Epoch(/*seed=*/3, epoch);
    ASSERT_EQ(places.size(), labels.size());
    std::map<int64_t, int64_t> of_epoch;
    std::set<std::pair<int64_t, int64_t>> copies;
    for (const auto& place : places) {
      ++of_epoch[labels[static_cast<size_t>(place.index)]];
      ++of_sample[place.index];
      EXPECT_TRUE(copies.insert({place.index, place.repeat}).second);  // no two draw the same augmentation
    }
    for (const auto& [label, count] : of_epoch) {
      EXPECT_TRUE(count == 22 || count == 23) << label;
      of_class[label] += count;
    }
  }
  for (const auto& [label, count] : of_class) EXPECT_TRUE(count == 90 || count == 91) << label;
  for (int64_t index = 0; index < 60; ++index) EXPECT_TRUE(of_sample[index] == 1 || of_sample[index] == 2) << index;
  for (int64_t index = 60; index < 67; ++index) EXPECT_TRUE(of_sample[index] == 12 || of_sample[index] == 13) << index;
}

TEST(BalancedOrder, IsAFunctionOfSeedAndEpoch) {
  const auto indices = [](int64_t seed, int64_t epoch) {
    std::vector<int64_t> found;
    for (const auto& place : BalancedOrder(Labels()).Epoch(seed, epoch)) found.push_back(place.index);
    return found;
  };
  EXPECT_EQ(indices(1, 2), indices(1, 2));
  EXPECT_NE(indices(1, 2), indices(1, 3));
  EXPECT_NE(indices(1, 2), indices(2, 2));
}

TEST(BalancedOrder, IsTheOrderOfTheSampler) {
  const TrainSampler sampler(68, 10, /*seed=*/3, Shuffle::kGlobal, LastBatch::kStream, /*repeats=*/1, {},
                             BalancedOrder(Labels()));
  const auto places = BalancedOrder(Labels()).Epoch(3, 1);
  const std::vector<SampleRef> batch = sampler.GlobalBatch(7);  // samples 70 to 79: the second epoch begins at 68
  for (size_t i = 0; i < batch.size(); ++i) {
    const SampleRef wanted{.index = places[i + 2].index, .epoch = 1, .repeat = places[i + 2].repeat};
    EXPECT_EQ(batch[i], wanted) << i;
  }
}

TEST(BalancedOrder, NeedsLabels) { EXPECT_THROW(BalancedOrder({0, 1, -1}), DataError); }

}  // namespace
}  // namespace dtrain::data
