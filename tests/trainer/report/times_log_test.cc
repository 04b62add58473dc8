#include "trainer/report/times_log.h"

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace dtrain::report {
namespace {

std::string Line(int64_t attempt, int64_t step, double startup, double forward) {
  return "{\"attempt\":" + std::to_string(attempt) + ",\"step\":" + std::to_string(step) +
         ",\"startup_seconds\":" + std::to_string(startup) + ",\"forward_seconds\":" + std::to_string(forward) + "}\n";
}

TEST(SplitOfTest, WhatIsDoneAgainWasLost) {
  const TimeSplit split =
      SplitOf(Line(1, 0, 2, 0) + Line(1, 2, 2, 10) + Line(1, 4, 2, 20) + Line(1, 4, 2, 21) + Line(1, 6, 2, 30) +  //
              Line(2, 4, 3, 0) + Line(2, 8, 3, 40));
  EXPECT_EQ(split.attempts, 2);
  EXPECT_EQ(split.kept[Phase::kStarting], 2 + 3);
  EXPECT_EQ(split.kept[Phase::kForward], 21 + 40);  // the last line of step 4 includes its evaluation and save
  EXPECT_EQ(split.lost_seconds, 30 - 21);
}

TEST(SplitOfTest, AnAttemptThatGoesBackFurtherTakesMoreWithIt) {
  const TimeSplit split = SplitOf(Line(1, 0, 1, 0) + Line(1, 2, 1, 10) + Line(1, 4, 1, 20) +  //
                                  Line(2, 4, 1, 0) + Line(2, 6, 1, 10) +                      //
                                  Line(3, 2, 1, 0) + Line(3, 6, 1, 25));
  EXPECT_EQ(split.kept[Phase::kStarting], 1 + 1);
  EXPECT_EQ(split.kept[Phase::kForward], 10 + 25);
  EXPECT_EQ(split.lost_seconds, (20 - 10) + (1 + 10));
}

TEST(SplitOfTest, OtherLinesAreLeftOut) {
  const TimeSplit split = SplitOf("\n[1]\n{}\n\"x\"\n" + Line(1, 3, 1, 2) + "{\"attempt\":1,\"step\":9,\"forw");
  EXPECT_EQ(split.attempts, 1);
  EXPECT_EQ(split.kept.total(), 3);
  EXPECT_EQ(SplitOf("").attempts, 0);
}

TEST(TimesLogTest, EachStartIsAnAttempt) {
  TemporaryFolder run;
  RunTimes times{.step = 5};
  times.parts[Phase::kStarting] = 0.5;
  times.parts[Phase::kData] = 0.25;
  TimesLog(run / "times.jsonl").Times(times);
  TimesLog second(run / "times.jsonl");
  second.Times(times);
  const std::string rest = R"(,"step":5,"startup_seconds":0.5,"data_wait_seconds":0.25})";
  EXPECT_EQ(ReadAll(run / "times.jsonl"), R"({"attempt":1)" + rest + "\n" + R"({"attempt":2)" + rest + "\n");
  EXPECT_EQ(second.Split().attempts, 2);
  EXPECT_EQ(second.Split().kept[Phase::kData], 0.5);
}

}  // namespace
}  // namespace dtrain::report
