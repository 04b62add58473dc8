// All times are invented, because the watch reads no clock.
#include "trainer/control/stall_watch.h"

#include <gmock/gmock.h>

namespace dtrain::control {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kTimeoutSeconds = 8;
const StallWatch::Time kStart{};

Position At(int64_t step, int64_t moves, Phase phase, double work_seconds = 0) {
  return {.point = step, .moves = moves, .step = step, .phase = phase, .work_seconds = work_seconds};
}

class StallWatchTest : public testing::Test {
 protected:
  // Lets `ranks` report their positions ten times a second until `seconds`, and collects the findings.
  void Until(double seconds, const std::vector<std::pair<int, Position>>& ranks) {
    const auto end = kStart + milliseconds(static_cast<int64_t>(seconds * 1000));
    for (; now_ < end && stall_.empty(); now_ += milliseconds(100)) {
      for (const auto& [rank, position] : ranks) watch_.Heard(rank, position, now_);
      const auto finding = watch_.Check(now_);
      warnings_.insert(warnings_.end(), finding.warnings.begin(), finding.warnings.end());
      stall_ = finding.stall;
    }
  }
  double seconds() const { return std::chrono::duration<double>(now_ - kStart).count(); }

  StallWatch watch_{3, kTimeoutSeconds, kStart};
  StallWatch::Time now_ = kStart;
  std::vector<std::string> warnings_;
  std::string stall_;
};

const Position kForward = At(7, 2, Phase::kForward), kWaiting = At(7, 3, Phase::kBackward);

TEST_F(StallWatchTest, NamesARankThatNoLongerSpeaksAndWhereItRuns) {
  watch_.SetPlace(1, "host b, process 7");
  Until(1, {{0, kWaiting}, {1, kForward}, {2, kWaiting}});
  Until(60, {{0, kWaiting}, {2, kWaiting}});
  EXPECT_THAT(stall_, HasSubstr("rank 1 has not answered for 7.")) << stall_;
  EXPECT_THAT(stall_, HasSubstr("after step 7: forward pass, host b, process 7 (its process is stopped"));
  EXPECT_EQ(stall_.find("rank 0"), std::string::npos);
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("rank 1 holds up the others: no message from it for 2."),
                                           HasSubstr("(after step 7: forward pass, host b, process 7)"))));
  EXPECT_NEAR(seconds(), kTimeoutSeconds, 0.3);
}

TEST_F(StallWatchTest, NamesARankThatSpeaksButStandsStill) {
  Until(60, {{0, kWaiting}, {1, kForward}, {2, kWaiting}});
  EXPECT_THAT(stall_, HasSubstr("rank 1 has stood still for 8.0 s, after step 7: forward pass")) << stall_;
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("rank 1 holds up the others: it has stood still for 4.")));
}

TEST_F(StallWatchTest, BlamesNobodyWhenAllStandAtTheSamePlace) {
  Until(60, {{0, kWaiting}, {1, kWaiting}, {2, kWaiting}});
  EXPECT_THAT(stall_, HasSubstr("all ranks have stood still after step 7: backward pass"));
}

TEST_F(StallWatchTest, AShortSilenceIsOnlyAWarning) {
  Until(1, {{0, kWaiting}, {1, kForward}, {2, kWaiting}});
  Until(4, {{0, kWaiting}, {2, kWaiting}});
  Until(5, {{0, At(8, 0, Phase::kData)}, {1, At(8, 0, Phase::kData)}, {2, At(8, 0, Phase::kData)}});
  EXPECT_EQ(stall_, "");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("rank 1 holds up the others"), "rank 1 is back"));
}

TEST_F(StallWatchTest, OneThatHasLeftIsNotWaitedFor) {
  watch_.Left(1);
  for (int second = 1; second < 20; ++second) {
    Until(second, {{0, At(second, 0, Phase::kData)}, {2, At(second, 0, Phase::kData)}});
  }
  EXPECT_EQ(stall_, "");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(StallWatchTest, OwnStandstillBlamesNobody) {
  Until(1, {{0, kForward}, {1, kForward}, {2, kForward}});
  watch_.Skip(milliseconds(100'000));
  now_ += milliseconds(100'000);
  EXPECT_THAT(watch_.Check(now_).warnings, IsEmpty());
  EXPECT_EQ(watch_.Check(now_).stall, "");
}

// Rank 0's save waits for the one before on a slow disk. The others have begun the next step and wait for rank 0 there.
TEST_F(StallWatchTest, ThoseWhoWaitForASlowDiskHaveItsTenMinutes) {
  const Position waiting = At(9, 2, Phase::kBackward);
  Until(300, {{0, At(9, 0, Phase::kSaving)}, {1, waiting}, {2, waiting}});
  EXPECT_EQ(stall_, "");
  Until(700, {{0, At(9, 0, Phase::kSaving)}, {1, waiting}, {2, waiting}});
  EXPECT_THAT(stall_, HasSubstr("rank 0 has stood still for 600.0 s, after step 9: saving"));
}

TEST_F(StallWatchTest, AfterASaveAllHaveTheirTimeToGoOn) {
  const Position waiting = At(9, 2, Phase::kBackward);
  Until(300, {{0, At(9, 0, Phase::kSaving)}, {1, waiting}, {2, waiting}});
  Until(306, {{0, At(9, 1, Phase::kForward)}, {1, waiting}, {2, waiting}});
  EXPECT_EQ(stall_, "");
  Until(310, {{0, At(9, 1, Phase::kForward)}, {1, waiting}, {2, waiting}});
  EXPECT_THAT(stall_, HasSubstr("rank 0 has stood still for 7.9 s"));
}

TEST_F(StallWatchTest, OneThatIsBehindASaveIsNoBetterForIt) {
  Until(300, {{0, At(9, 0, Phase::kSaving)}, {1, At(8, 2, Phase::kForward)}, {2, At(9, 2, Phase::kBackward)}});
  EXPECT_THAT(stall_, HasSubstr("rank 1 has stood still for 8.0 s, after step 8: forward pass")) << stall_;
}

TEST_F(StallWatchTest, NamesASlowRankOnce) {
  for (int step = 1; step < 60; ++step) {
    const double seconds = 0.2 * step;
    Until(seconds, {{0, At(step, 0, Phase::kData, 0.05 * step)},
                    {1, At(step, 0, Phase::kData, 0.06 * step)},
                    {2, At(step, 0, Phase::kData, 0.18 * step)}});
  }
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("rank 2 is slower than the others: 0.180 s of its own work per step, "
                                               "the median is 0.060 s")));
}

TEST_F(StallWatchTest, WorkThatHardlyCountsIsNotWorthALine) {
  for (int step = 1; step < 60; ++step) {
    Until(0.2 * step, {{0, At(step, 0, Phase::kData, 0.001 * step)},
                       {1, At(step, 0, Phase::kData, 0.001 * step)},
                       {2, At(step, 0, Phase::kData, 0.01 * step)}});
  }
  EXPECT_THAT(warnings_, IsEmpty());
}

using std::chrono::seconds;

const Liveness::Time kFirstAsk{};

TEST(Liveness, ARankThatStandsStillForTooLongIsDead) {
  Liveness liveness(/*timeout_seconds=*/60);
  Position position{.point = 7, .moves = 2, .step = 7, .phase = Phase::kData};
  EXPECT_TRUE(liveness.Ask(position, false, kFirstAsk).alive);
  EXPECT_TRUE(liveness.Ask(position, false, kFirstAsk + seconds(59)).alive);
  const Liveness::Answer dead = liveness.Ask(position, false, kFirstAsk + seconds(60));
  EXPECT_FALSE(dead.alive);
  EXPECT_EQ(dead.text, "after step 7: waiting for data, for 60.0 s");
  position.phase = Phase::kForward;  // it was slow, not dead
  ++position.moves;
  EXPECT_TRUE(liveness.Ask(position, false, kFirstAsk + seconds(61)).alive);
  EXPECT_FALSE(liveness.Ask(position, false, kFirstAsk + seconds(121)).alive);
}

TEST(Liveness, ASlowSaveIsNoDeath) {
  Liveness liveness(/*timeout_seconds=*/60);
  const Position saving{.point = 7, .phase = Phase::kSaving};
  liveness.Ask(saving, true, kFirstAsk);
  EXPECT_TRUE(liveness.Ask(saving, true, kFirstAsk + seconds(599)).alive);
  EXPECT_FALSE(liveness.Ask(saving, true, kFirstAsk + seconds(600)).alive);
  Liveness patient(/*timeout_seconds=*/1000);
  patient.Ask(saving, true, kFirstAsk);
  EXPECT_TRUE(patient.Ask(saving, true, kFirstAsk + seconds(999)).alive);
}

// A step may end and the next one come to the same phase between two questions.
TEST(Liveness, EveryPointIsAMove) {
  Liveness liveness(/*timeout_seconds=*/60);
  for (int64_t step = 0; step < 3; ++step) {
    const Position position{.point = step, .moves = 1, .step = step, .phase = Phase::kForward};
    EXPECT_TRUE(liveness.Ask(position, false, kFirstAsk + step * seconds(3600)).alive);
  }
}

}  // namespace
}  // namespace dtrain::control
