#include "data/text/token_batches.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

namespace dtrain::data {
namespace {

constexpr int64_t kBlocks = 103;
int64_t Length(int64_t block) { return 2 + block * 37 % 63; }  // from 2 to 64

TokenBatchOptions Options(int64_t batch_size, int64_t max_tokens, int64_t micro_batches) {
  return {.batch_size = batch_size,
          .max_tokens = max_tokens,
          .tokens_per_sample = 64,
          .micro_batches = micro_batches,
          .seed = 9};
}

void ExpectRowsFit(const std::vector<SampleRef>& batch) {
  int64_t longest = 0;
  for (const SampleRef& sample : batch) longest = std::max(longest, Length(sample.index));
  for (const SampleRef& sample : batch) {
    EXPECT_EQ(sample.size, batch.front().size);
    EXPECT_GE(sample.size, longest);
    EXPECT_LT(sample.size, longest + 8);
    EXPECT_LE(sample.size, 64);
  }
}

TEST(TokenBatches, TheOrderToCutLooksAtEachLengthAFewTimes) {
  int64_t calls = 0;
  const auto length = [&calls](int64_t block) { return ++calls, 1 + block * 7919 % 64; };
  const TokenBatches batches(1000, length,
                             {.max_tokens = 640, .tokens_per_sample = 64, .micro_batches = 1, .shards = {300, 700}});
  EXPECT_EQ(calls, 3 * 1000);  // to count, to place and to cut
}

TEST(TokenBatches, WithoutABudgetAStepTakesBlocks) {
  const TokenBatches batches(kBlocks, Length, Options(4, 0, 6));
  EXPECT_EQ(batches.units(), kBlocks);
  EXPECT_EQ(batches.units_per_step(), 24);
  const TrainSampler sampler(kBlocks, 24, 9, Shuffle::kGlobal, LastBatch::kStream);
  for (int64_t step = 0; step < 9; ++step) {
    std::vector<int64_t> blocks, expected;
    for (int64_t rank = 0; rank < 3; ++rank) {
      for (int64_t micro_step = 0; micro_step < 2; ++micro_step) {
        const auto batch = batches.Share(step, rank, 3, micro_step, 2);
        EXPECT_EQ(batch.size(), 4U);
        ExpectRowsFit(batch);
        for (const SampleRef& sample : batch) blocks.push_back(sample.index);
      }
    }
    for (const SampleRef& sample : sampler.GlobalBatch(step)) expected.push_back(sample.index);
    EXPECT_EQ(blocks, expected);
  }
}

TEST(TokenBatches, ABalancedOrderTakesThePlaceOfPermutations) {
  std::vector<int64_t> labels(kBlocks, 0);
  labels[3] = labels[70] = 1;
  TokenBatchOptions options = Options(4, 0, 6);
  options.balanced = BalancedOrder(labels);
  const TokenBatches batches(kBlocks, Length, options);
  int64_t of_small_class = 0;
  for (const SampleRef& sample : batches.Share(0, 0, 1, 0, 1))
    of_small_class += labels[static_cast<size_t>(sample.index)];
  EXPECT_GT(of_small_class, 5);  // of 24; a permutation would have one at most
  options.max_tokens = 128;
  EXPECT_THROW(TokenBatches(kBlocks, Length, options), std::invalid_argument);
}

TEST(TokenBatches, RowsMayHaveOneToken) {
  const auto one = [](int64_t /*block*/) { return int64_t{1}; };
  for (const int64_t max_tokens : {0, 3}) {
    const TokenBatches batches(5, one, {.batch_size = 3, .max_tokens = max_tokens, .tokens_per_sample = 1});
    EXPECT_EQ(batches.Share(0, 0, 1, 0, 1).front().size, 1);
  }
}

TEST(TokenBatches, ABudgetHoldsAndAnEpochHasEveryBlockOnce) {
  for (const int64_t batch_size : {0, 5}) {
    const TokenBatches batches(kBlocks, Length, Options(batch_size, 256, 1));
    std::multiset<int64_t> seen;
    for (int64_t step = 0; step < batches.units(); ++step) {
      const auto batch = batches.Share(step, 0, 1, 0, 1);
      ASSERT_FALSE(batch.empty());
      ExpectRowsFit(batch);
      EXPECT_LE(static_cast<int64_t>(batch.size()) * batch.front().size, 256);
      EXPECT_LE(batch.size(), batch_size > 0 ? 5U : 999U);
      for (const SampleRef& sample : batch) {
        seen.insert(sample.index);
        EXPECT_EQ(sample.epoch, 0);
      }
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(kBlocks));
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), seen.size());
    EXPECT_EQ(batches.Share(batches.units(), 0, 1, 0, 1).front().epoch, 1);
  }
}

// Epochs take the shards in turn, also where batches are cut by a budget.
TEST(TokenBatches, AnEpochHasTheBlocksOfOneShard) {
  for (const int64_t max_tokens : {0, 256}) {
    TokenBatchOptions options = Options(max_tokens > 0 ? 0 : 1, max_tokens, 1);
    options.shards = {40, 3, 60};
    const TokenBatches batches(kBlocks, Length, options);
    std::map<int64_t, std::set<int64_t>> of_epoch;
    int64_t taken = 0;
    for (int64_t step = 0; step < 2 * batches.units(); ++step) {
      EXPECT_EQ(batches.BlocksTaken(step), taken);
      for (const SampleRef& sample : batches.Share(step, 0, 1, 0, 1)) {
        EXPECT_TRUE(of_epoch[sample.epoch].insert(sample.index).second);
        ++taken;
      }
    }
    ASSERT_EQ(of_epoch.size(), 6U);
    int64_t epoch = 0;
    for (const auto& [first, end] : {std::pair{0, 40}, {40, 43}, {43, 103}, {0, 40}, {40, 43}, {43, 103}}) {
      EXPECT_EQ(static_cast<int64_t>(of_epoch[epoch].size()), end - first);
      EXPECT_EQ(*of_epoch[epoch].begin(), first);
      EXPECT_EQ(*of_epoch[epoch++].rbegin(), end - 1);
    }
  }
}

// The blocks of a global step depend only on ranks × accumulation, and epochs shuffle whole batches.
TEST(TokenBatches, StepsAreTheSameOnAnyNumberOfRanks) {
  const TokenBatches batches(kBlocks, Length, Options(0, 256, 6));
  EXPECT_EQ(batches.units_per_step(), 6);
  std::set<std::vector<int64_t>> first_epoch, later;
  for (int64_t step = 0; step < 20; ++step) {
    std::vector<std::vector<int64_t>> expected;
    for (const auto& [world, accumulation] : std::map<int64_t, int64_t>{{1, 6}, {2, 3}, {3, 2}, {6, 1}}) {
      std::vector<std::vector<int64_t>> parts;
      for (int64_t rank = 0; rank < world; ++rank) {
        for (int64_t micro_step = 0; micro_step < accumulation; ++micro_step) {
          auto& part = parts.emplace_back();
          for (const auto& sample : batches.Share(step, rank, world, micro_step, accumulation)) {
            part.push_back(sample.index);
          }
        }
      }
      if (expected.empty()) expected = parts;
      EXPECT_EQ(parts, expected);
    }
    for (auto& part : expected) (step * 6 < batches.units() ? first_epoch : later).insert(part);
  }
  for (const auto& batch : later) EXPECT_TRUE(first_epoch.contains(batch));
}

TEST(TokenBatches, BlocksOfABatchAreAlikeUnlessFileOrderIsAskedFor) {
  TokenBatchOptions options = Options(0, 256, 1);
  const TokenBatches sorted(kBlocks, Length, options);
  options.shuffle = Shuffle::kNone;
  const TokenBatches in_order(kBlocks, Length, options);
  EXPECT_LT(sorted.units(), in_order.units());  // less padding
  int64_t next = 0;
  for (int64_t step = 0; step < in_order.units(); ++step) {
    for (const SampleRef& sample : in_order.Share(step, 0, 1, 0, 1)) EXPECT_EQ(sample.index, next++);
  }
  EXPECT_EQ(next, kBlocks);
}

TEST(TokenBatches, EvaluationHasEveryBlockOnceInFileOrder) {
  for (const auto& options : {Options(4, 0, 1), Options(0, 256, 1), Options(3, 100, 1)}) {
    const TokenBatches batches(kBlocks, Length, options);
    int64_t next = 0;
    for (int64_t rank = 0; rank < 3; ++rank) {
      for (const auto& batch : batches.EvaluationBatches(rank, 3)) {
        ExpectRowsFit(batch);
        for (const SampleRef& sample : batch) {
          EXPECT_EQ(sample.index, next++);
          EXPECT_EQ(sample.epoch, 0);
        }
      }
    }
    EXPECT_EQ(next, kBlocks);
  }
}

TEST(TokenBatches, ALimitedEvaluationIsSpreadAndTheSameAtAnyNumberOfRanks) {
  for (const auto& options : {Options(4, 0, 1), Options(0, 256, 1), Options(3, 100, 1)}) {
    const TokenBatches batches(kBlocks, Length, options);
    std::vector<int64_t> expected;
    for (const int64_t world : {1, 2, 3, 30}) {
      std::vector<int64_t> blocks;
      for (int64_t rank = 0; rank < world; ++rank) {
        for (const auto& batch : batches.EvaluationBatches(rank, world, /*limit=*/8)) {
          ExpectRowsFit(batch);
          for (const SampleRef& sample : batch) blocks.push_back(sample.index);
        }
      }
      if (expected.empty()) expected = blocks;
      EXPECT_EQ(blocks, expected) << world;
    }
    EXPECT_TRUE(std::is_sorted(expected.begin(), expected.end()));
    EXPECT_LT(static_cast<int64_t>(expected.size()), kBlocks / 2);
    EXPECT_LT(expected.front(), kBlocks / 4);
    EXPECT_GT(expected.back(), 3 * kBlocks / 4);
    const int64_t more = 10 * kBlocks;
    EXPECT_EQ(batches.EvaluationBatches(0, 1, more), batches.EvaluationBatches(0, 1));
  }
}

TEST(TokenBatches, CountTheBlocksOfStepsWhateverTheyHold) {
  for (const LastBatch last_batch : {LastBatch::kStream, LastBatch::kDrop}) {
    for (TokenBatchOptions options : {Options(4, 0, 1), Options(0, 256, 6), Options(3, 100, 7)}) {
      options.last_batch = last_batch;
      const TokenBatches batches(kBlocks, Length, options);
      int64_t taken = 0;
      for (int64_t step = 0; step < 40; ++step) {
        EXPECT_EQ(batches.BlocksTaken(step), taken) << step;
        for (int64_t rank = 0; rank < options.micro_batches; ++rank) {
          taken += static_cast<int64_t>(batches.Share(step, rank, options.micro_batches, 0, 1).size());
        }
      }
    }
  }
}

TEST(TokenBatches, WantASizeOrABudget) {
  EXPECT_THROW(TokenBatches(kBlocks, Length, Options(0, 0, 1)), std::invalid_argument);
}

}  // namespace
}  // namespace dtrain::data
