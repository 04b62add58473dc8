#include "data/pipeline/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "data/error.h"
#include "data/random.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;

std::vector<int64_t> Indices(const std::vector<SampleRef>& batch) {
  std::vector<int64_t> indices;
  for (const SampleRef& sample : batch) indices.push_back(sample.index);
  return indices;
}

TEST(TrainSampler, StreamCutsEpochsAcrossTheirBoundaries) {
  const TrainSampler sampler(5, 3, 0, Shuffle::kNone, LastBatch::kStream);
  EXPECT_THAT(sampler.GlobalBatch(0), ElementsAre(SampleRef{0, 0}, SampleRef{1, 0}, SampleRef{2, 0}));
  EXPECT_THAT(sampler.GlobalBatch(1), ElementsAre(SampleRef{3, 0}, SampleRef{4, 0}, SampleRef{0, 1}));
  EXPECT_THAT(sampler.GlobalBatch(2), ElementsAre(SampleRef{1, 1}, SampleRef{2, 1}, SampleRef{3, 1}));
}

TEST(TrainSampler, StreamTakesABatchOfSeveralEpochs) {
  const TrainSampler sampler(2, 5, 0, Shuffle::kNone, LastBatch::kStream);
  EXPECT_THAT(sampler.GlobalBatch(1),
              ElementsAre(SampleRef{1, 2}, SampleRef{0, 3}, SampleRef{1, 3}, SampleRef{0, 4}, SampleRef{1, 4}));
}

TEST(TrainSampler, DropCutsEachEpochShort) {
  const TrainSampler sampler(5, 2, 0, Shuffle::kNone, LastBatch::kDrop);
  EXPECT_THAT(sampler.GlobalBatch(1), ElementsAre(SampleRef{2, 0}, SampleRef{3, 0}));
  EXPECT_THAT(sampler.GlobalBatch(2), ElementsAre(SampleRef{0, 1}, SampleRef{1, 1}));
}

TEST(TrainSampler, ShuffledStreamIsTheConcatenationOfPermutations) {
  constexpr int64_t kSize = 100, kBatch = 7, kSeed = 42;
  const TrainSampler sampler(kSize, kBatch, kSeed, Shuffle::kGlobal, LastBatch::kStream);
  std::vector<int64_t> stream, wanted;
  for (int64_t step = 0; step < 50; ++step) {
    for (const int64_t index : Indices(sampler.GlobalBatch(step))) stream.push_back(index);
  }
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    for (const int64_t index : Permutation(kSize, kSeed, epoch)) wanted.push_back(index);
  }
  wanted.resize(stream.size());
  EXPECT_EQ(stream, wanted);
}

TEST(TrainSampler, AnyStepCanBeAskedForDirectly) {
  const TrainSampler sequential(50, 8, 1, Shuffle::kGlobal, LastBatch::kStream);
  const TrainSampler random_access(50, 8, 1, Shuffle::kGlobal, LastBatch::kStream);
  std::vector<std::vector<SampleRef>> batches;
  for (int64_t step = 0; step < 40; ++step) batches.push_back(sequential.GlobalBatch(step));
  for (const int64_t step : {39, 0, 20, 5, 21, 38}) {
    EXPECT_EQ(random_access.GlobalBatch(step), batches[static_cast<size_t>(step)]) << step;
  }
}

TEST(TrainSampler, RepeatsComeInAnEpochOfTheSameLength) {
  const TrainSampler sampler(4, 4, 0, Shuffle::kNone, LastBatch::kStream, 3);
  EXPECT_THAT(sampler.GlobalBatch(0),
              ElementsAre(SampleRef{0, 0, 0}, SampleRef{1, 0, 0}, SampleRef{0, 0, 1}, SampleRef{0, 0, 2}));
  EXPECT_THAT(sampler.GlobalBatch(1)[0], (SampleRef{0, 1, 0}));
}

// Like torchvision's RASampler among ranks; micro-steps are parts, too.
TEST(TrainSampler, CopiesOfASampleGoToDifferentParts) {
  for (const int64_t repeats : {2, 3, 4}) {
    for (const int64_t parts : {repeats, 2 * repeats}) {
      const int64_t global_batch = 12 * repeats;
      const TrainSampler sampler(101, global_batch, 7, Shuffle::kGlobal, LastBatch::kStream, repeats);
      for (int64_t step = 0; step < 30; ++step) {
        const auto batch = sampler.GlobalBatch(step);
        // If an epoch ends within a sample's copies, two copies of another sample may be one place closer.
        if (parts == repeats && batch.front().epoch != batch.back().epoch) continue;
        for (int64_t part = 0; part < parts; ++part) {
          std::set<std::pair<int64_t, int64_t>> samples;
          const auto share = RankShare(batch, part, parts);
          for (const SampleRef& sample : share) samples.emplace(sample.epoch, sample.index);
          EXPECT_EQ(samples.size(), share.size()) << repeats << " copies, step " << step << " part " << part;
        }
        for (size_t i = 0; i < batch.size(); ++i) {
          const SampleRef &one = batch[i], &next = batch[(i + 1) % batch.size()];
          EXPECT_FALSE(one.index == next.index && one.epoch == next.epoch) << "mixed with itself at " << i;
        }
      }
    }
  }
}

TEST(TrainSampler, ABatchHasTheSizeOfTheEpochThatItBeginsIn) {
  const TrainSampler sampler(5, 2, 0, Shuffle::kNone, LastBatch::kStream, 1, {{0, 160}, {1, 192}});
  const auto sizes = [&](int64_t step) {
    std::vector<int64_t> all;
    for (const SampleRef& sample : sampler.GlobalBatch(step)) all.push_back(sample.size);
    return all;
  };
  EXPECT_THAT(sizes(0), ElementsAre(160, 160));
  EXPECT_THAT(sizes(2), ElementsAre(160, 160));  // its second sample belongs to the next epoch
  EXPECT_THAT(sizes(3), ElementsAre(192, 192));
  EXPECT_THAT(sizes(30), ElementsAre(192, 192));
  EXPECT_THAT(RankShare(sampler.GlobalBatch(3), 1, 2)[0].size, 192);
}

TEST(ParseSizeSchedule, TakesAscendingEpochsFromZero) {
  EXPECT_EQ(ParseSizeSchedule(""), SizeSchedule());
  EXPECT_EQ(ParseSizeSchedule("0:160"), (SizeSchedule{{0, 160}}));
  EXPECT_EQ(ParseSizeSchedule("0:160,6:1,12:8192"), (SizeSchedule{{0, 160}, {6, 1}, {12, 8192}}));
  for (const char* text :
       {"160", "1:160", "0:160,0:192", "0:160,6:192,3:176", "0:0", "0:8193", "0:-1", "-1:160", "0:160,", ",0:160",
        "0:160 ,6:192", "0:160;6:192", "0:160:192", ":", "0:", ":160", "0x0:160", "0:1.5", "0:99999999999999999999"}) {
    EXPECT_FALSE(ParseSizeSchedule(text)) << text;
  }
}

TEST(ShardPermutation, IsOneOfNeighboursThatDependsOnSeedAndEpoch) {
  for (const int64_t n : {1, 64, 65, 5000, 10000}) {
    std::vector<int64_t> order = ShardPermutation(n, 3, 1);
    EXPECT_EQ(order, ShardPermutation(n, 3, 1));
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
  const std::vector<int64_t> order = ShardPermutation(100'000, 3, 1);
  EXPECT_NE(order, ShardPermutation(100'000, 3, 2));
  EXPECT_NE(order, ShardPermutation(100'000, 4, 1));
  // The first 2,048 samples come from 32 chunks of 64 rather than one from each of hundreds.
  std::set<int64_t> chunks;
  for (size_t i = 0; i < 2048; ++i) chunks.insert(order[i] / 64);
  EXPECT_LE(chunks.size(), 33U);
  EXPECT_GT(std::abs(order[0] - order[1]), 0);
}

TEST(TrainSampler, RefusesWhatHasNoBatch) {
  EXPECT_THROW(TrainSampler(0, 4, 0, Shuffle::kNone, LastBatch::kStream), DataError);
  EXPECT_THROW(TrainSampler(3, 4, 0, Shuffle::kNone, LastBatch::kDrop), DataError);
  EXPECT_NO_THROW(TrainSampler(4, 4, 0, Shuffle::kNone, LastBatch::kDrop));
}

TEST(RankShare, PartsMakeUpTheBatchInOrder) {
  const auto batch = TrainSampler(100, 24, 0, Shuffle::kGlobal, LastBatch::kStream).GlobalBatch(0);
  for (const auto& [world, accumulation] : {std::pair{1, 1}, {2, 1}, {3, 2}, {4, 6}, {5, 2}}) {
    std::vector<SampleRef> all;
    for (int64_t rank = 0; rank < world; ++rank) {
      for (int64_t micro = 0; micro < accumulation; ++micro) {
        for (const SampleRef& sample : RankShare(batch, rank, world, micro, accumulation)) all.push_back(sample);
      }
    }
    EXPECT_EQ(all, batch) << world << " ranks, " << accumulation << " micro-steps";
  }
}

TEST(EvaluationBatches, EverySampleOnceInFileOrder) {
  for (const auto& [size, batch_size, world] : {std::tuple{10, 3, 1}, {10, 3, 3}, {2, 4, 5}, {7, 7, 2}}) {
    std::vector<int64_t> all;
    for (int64_t rank = 0; rank < world; ++rank) {
      for (const auto& batch : EvaluationBatches(size, batch_size, rank, world)) {
        EXPECT_TRUE(!batch.empty() && static_cast<int64_t>(batch.size()) <= batch_size);
        for (const int64_t index : Indices(batch)) all.push_back(index);
      }
    }
    ASSERT_EQ(static_cast<int64_t>(all.size()), size);
    for (int64_t i = 0; i < size; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i);
  }
}

TEST(SpreadEvenly, TakesOneOfEachStretch) {
  for (const auto& [n, count] : {std::pair<int64_t, int64_t>{10, 10}, {10, 1}, {10, 3}, {1000, 320}, {997, 100}}) {
    const std::vector<int64_t> chosen = SpreadEvenly(n, count);
    ASSERT_EQ(static_cast<int64_t>(chosen.size()), count);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_GE(chosen[static_cast<size_t>(i)], i * n / count);
      EXPECT_LT(chosen[static_cast<size_t>(i)], (i + 1) * n / count);
    }
    EXPECT_EQ(SpreadEvenly(n, count), chosen);
  }
  // Every tenth sample would be of one class where ten classes take turns.
  std::set<int64_t> classes;
  for (const int64_t index : SpreadEvenly(1000, 100)) classes.insert(index % 10);
  EXPECT_EQ(classes.size(), 10u);
}

TEST(EvaluationBatches, ALimitTakesTheSameSamplesAtAnyNumberOfRanks) {
  for (const int64_t world : {1, 2, 3, 20}) {
    std::vector<int64_t> all;
    for (int64_t rank = 0; rank < world; ++rank) {
      for (const auto& batch : EvaluationBatches(100, 3, rank, world, 12)) {
        for (const int64_t index : Indices(batch)) all.push_back(index);
      }
    }
    EXPECT_EQ(all, SpreadEvenly(100, 12)) << world;
  }
  EXPECT_EQ(EvaluationBatches(10, 4, 0, 1, 10), EvaluationBatches(10, 4, 0, 1));
  EXPECT_EQ(EvaluationBatches(10, 4, 0, 1, 1000), EvaluationBatches(10, 4, 0, 1));
}

TEST(TrainSampler, EpochsTakeShardsInTurn) {
  const std::vector<int64_t> shards = {4, 1, 3};
  const TrainSampler sampler(8, 3, /*seed=*/1, Shuffle::kGlobal, LastBatch::kStream, /*repeats=*/1, {}, {}, shards);
  std::vector<SampleRef> stream;
  for (int64_t step = 0; step < 6; ++step) {
    for (const SampleRef& sample : sampler.GlobalBatch(step)) stream.push_back(sample);
  }
  size_t place = 0;
  for (const auto& [epoch, first] : {std::pair{0, 0}, {1, 4}, {2, 5}, {3, 0}, {4, 4}, {5, 5}}) {
    const int64_t size = shards[static_cast<size_t>(epoch) % 3];
    for (const int64_t index : Permutation(size, 1, epoch)) {
      EXPECT_EQ(stream[place++], (SampleRef{.index = first + index, .epoch = epoch})) << epoch;
    }
  }
}

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

TEST(BalancedOrder, LeavesOutWhatHasNoLabel) {
  std::vector<int64_t> indices;
  for (const auto& place : BalancedOrder({0, -1, 1, 1}).Epoch(/*seed=*/3, /*epoch=*/0)) indices.push_back(place.index);
  EXPECT_THAT(indices, testing::UnorderedElementsAre(0, 0, 2, 3));
  EXPECT_THROW(BalancedOrder({-1, -1}), DataError);
}

}  // namespace
}  // namespace dtrain::data
