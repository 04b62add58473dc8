// Tests how a loader treats records that cannot be read or decoded: it replaces them, leaves them out, or fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <new>
#include <set>

#include "data/pipeline/loader.h"
#include "tests/data/pipeline/numbered_records.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

TEST(LoaderOfBadRecords, BadTrainingRecordsAreReplacedTheSameWayEverywhere) {
  NumberedSource source(200);
  source.unreadable = {3, 50};
  source.undecodable = {7};
  const NumberDecoder decoder;
  std::vector<std::vector<int64_t>> runs;
  for (const int64_t threads : {1, 4}) {
    Quarantine quarantine(200, {.max_bad_records = 0.015});
    Loader loader(source, decoder, Training(200, 20, 30), {.decode_threads = threads}, &quarantine);
    runs.push_back(AllIndices(loader));
    EXPECT_EQ(quarantine.count(), 3);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0].size(), 600U);
  for (const int64_t bad : {3, 50, 7}) EXPECT_EQ(std::count(runs[0].begin(), runs[0].end(), bad), 0);
  // All other samples keep their places.
  const auto wanted = TrainSampler(200, 20, 7, Shuffle::kGlobal, LastBatch::kStream).GlobalBatch(0);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool bad = wanted[i].index == 3 || wanted[i].index == 50 || wanted[i].index == 7;
    EXPECT_EQ(runs[0][i] == wanted[i].index, !bad);
  }
}

// Returns the samples of all ranks' batches, joined in order.
std::vector<int64_t> IndicesAt(int64_t world, const NumberedSource& source, int64_t batch, int64_t steps) {
  const NumberDecoder decoder;
  const auto sampler = TrainSampler(source.size(), batch, 7, Shuffle::kGlobal, LastBatch::kStream);
  std::vector<std::vector<int64_t>> by_step(static_cast<size_t>(steps));
  for (int64_t rank = 0; rank < world; ++rank) {
    const auto share = [&](int64_t step) {
      return step < steps ? std::optional(RankShare(sampler.GlobalBatch(step), rank, world)) : std::nullopt;
    };
    Quarantine quarantine(source.size(), {.max_bad_records = 1});
    Loader loader(source, decoder, share, {.decode_threads = rank + 1, .seed = 5}, &quarantine);
    for (auto& step : by_step) {
      for (const int64_t index : Values((*loader.Next())["value"])) step.push_back(index);
    }
  }
  std::vector<int64_t> all;
  for (const auto& step : by_step) all.insert(all.end(), step.begin(), step.end());
  return all;
}

TEST(LoaderOfBadRecords, ReplacementsAreTheSameAtAnyWorldSize) {
  NumberedSource source(60);
  for (int64_t index = 0; index < 60; index += 3) source.unreadable.insert(index);  // replacements are often bad, too
  const std::vector<int64_t> alone = IndicesAt(1, source, 12, 10);
  EXPECT_EQ(alone.size(), 120U);
  EXPECT_EQ(IndicesAt(2, source, 12, 10), alone);
  EXPECT_EQ(IndicesAt(3, source, 12, 10), alone);
  // Another epoch draws other replacements: not all of the 20 bad records get the same one twice.
  const auto wanted = TrainSampler(60, 12, 7, Shuffle::kGlobal, LastBatch::kStream);
  std::map<int64_t, std::set<int64_t>> stand_ins;
  for (size_t i = 0; i < alone.size(); ++i) {
    const int64_t index = wanted.GlobalBatch(static_cast<int64_t>(i) / 12)[i % 12].index;
    if (index % 3 == 0) stand_ins[index].insert(alone[i]);
  }
  EXPECT_TRUE(std::any_of(stand_ins.begin(), stand_ins.end(), [](const auto& each) { return each.second.size() > 1; }));
}

TEST(LoaderOfBadRecords, BadEvaluationRecordsAreLeftOut) {
  NumberedSource source(10);
  source.undecodable = {0, 4, 8, 9};
  const NumberDecoder decoder;
  Quarantine quarantine(10, {.max_bad_records = 0.4});
  Loader loader(source, decoder, Evaluation(10, 4), {.bad_records = BadRecordPolicy::kLeaveOut}, &quarantine);
  EXPECT_EQ(Values((*loader.Next())["value"]), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(Values((*loader.Next())["index"]), (std::vector<int64_t>{5, 6, 7}));
  const std::optional<Batch> last = loader.Next();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->size(), 0);
  EXPECT_EQ((*last)["epoch"].sizes(), (at::IntArrayRef{0, 2}));
  EXPECT_FALSE(loader.Next());
  EXPECT_EQ(quarantine.count(), 4);
}

TEST(LoaderOfBadRecords, OverTheBudgetNextThrowsAndGoesOnThrowing) {
  NumberedSource source(100);
  source.undecodable = {33, 66};
  const NumberDecoder decoder;
  Quarantine quarantine(100, {.max_bad_records = 0.01});
  Loader loader(source, decoder, Training(100, 10, 10), {}, &quarantine);
  for (int again = 0; again < 2; ++again) {
    try {
      while (loader.Next()) {
      }
      FAIL() << "no exception";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("record-"));
      EXPECT_THAT(error.hint(), HasSubstr("--max_bad_records"));
    }
  }
}

TEST(LoaderOfBadRecords, WithoutQuarantineTheFirstBadRecordIsAnError) {
  NumberedSource source(100);
  source.unreadable = {33};
  const NumberDecoder decoder;
  Loader loader(source, decoder, Evaluation(100, 10), {}, nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(loader.Next());
  EXPECT_THROW(loader.Next(), DataError);
}

TEST(LoaderOfBadRecords, OtherExceptionsComeOutAsTheyAre) {
  NumberedSource source(100);
  source.broken = {33};
  const NumberDecoder decoder;
  Quarantine quarantine(100, {.max_bad_records = 1});
  Loader loader(source, decoder, Evaluation(100, 10), {}, &quarantine);
  EXPECT_THROW(AllIndices(loader), std::runtime_error);

  Loader without_batches(
      source, decoder, [](int64_t) -> std::optional<std::vector<SampleRef>> { throw std::bad_alloc(); }, {}, nullptr);
  EXPECT_THROW(without_batches.Next(), std::bad_alloc);
}

TEST(LoaderOfBadRecords, WhenEverythingIsBadItEndsWithAnError) {
  NumberedSource source(50);
  for (int64_t i = 0; i < 50; ++i) source.unreadable.insert(i);
  const NumberDecoder decoder;
  Quarantine quarantine(50, {.max_bad_records = 1});
  Loader loader(source, decoder, Training(50, 10, 10), {}, &quarantine);
  EXPECT_THROW(loader.Next(), DataError);
}

}  // namespace
}  // namespace dtrain::data
