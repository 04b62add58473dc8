#include "trainer/loop/saving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::loop {
namespace {

using ::testing::Optional;

SaveInterval IntervalOf(const std::string& seconds, double hours = 24) {
  config::RunConfig config;
  config.save_every_seconds = seconds;
  config.expected_hours_between_faults = hours;
  return SaveInterval(config);
}

TEST(DalyInterval, IsThatOfThePaper) {
  EXPECT_NEAR(DalyInterval(5, 0, 1000), 100 * (1 + 0.05 / 3 + 0.0025 / 9) - 5, 1e-9);  // 96.6944
  EXPECT_DOUBLE_EQ(DalyInterval(5, 300, 1000), 300);  // no save begins before the last one is written
  EXPECT_DOUBLE_EQ(DalyInterval(3000, 0, 1000), 1000);
}

TEST(SaveInterval, IsTheGivenOneWhateverSavesCost) {
  SaveInterval interval = IntervalOf("2.5");
  interval.Note(100, 1000);
  EXPECT_THAT(interval.seconds(), Optional(2.5));
  EXPECT_EQ(IntervalOf("0").seconds(), std::nullopt);
}

TEST(SaveInterval, FollowsWhatSavesCost) {
  SaveInterval interval = IntervalOf("auto", 1000.0 / 3600);
  EXPECT_THAT(interval.seconds(), Optional(SaveInterval::kFirstSeconds));
  interval.Note(5, std::nullopt);
  EXPECT_NEAR(*interval.seconds(), 96.6944 + 5, 1e-4);
  interval.Note(7, 1.0);  // a mean of 6
  EXPECT_NEAR(*interval.seconds(), DalyInterval(6, 1, 1000) + 6, 1e-9);
  interval.Note(6, 500.0);  // the disk has become slow
  EXPECT_NEAR(*interval.seconds(), 506, 1e-9);
}

TEST(SaveInterval, IsShorterWithMoreFaults) {
  SaveInterval rare = IntervalOf("auto", 240), often = IntervalOf("auto", 1);
  rare.Note(0.1, 1.0);
  often.Note(0.1, 1.0);
  EXPECT_LT(*often.seconds(), *rare.seconds());
}

}  // namespace
}  // namespace dtrain::loop
