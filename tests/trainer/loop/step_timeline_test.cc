// Tests that parts of a step are told apart and add up, not how long they take.
#include "trainer/loop/phases.h"

#include <gmock/gmock.h>

namespace dtrain::loop {
namespace {

using report::Phase;
using report::TimeParts;

constexpr Phase kStep[] = {Phase::kOther,    Phase::kData,   Phase::kForward, Phase::kBackward,
                           Phase::kExchange, Phase::kUpdate, Phase::kOther};

void SpendAMoment() {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() == start) continue;
}

TEST(StepTimeline, ARecordedStepIsOne) {
  StepTimeline timeline(at::kCPU, /*recorded=*/true);
  for (const Phase part : kStep) {
    timeline.Enter(part);
    SpendAMoment();
  }
  timeline.Leave();
  const TimeParts seconds = timeline.Seconds();
  EXPECT_GT(seconds[Phase::kForward], 0);
  EXPECT_GT(seconds[Phase::kData], 0);
  for (const Phase part : {Phase::kBackward, Phase::kExchange, Phase::kUpdate}) {
    EXPECT_EQ(seconds[part], 0);
  }
}

TEST(StepTable, SaysMeansAndShares) {
  TimeParts seconds;
  seconds[Phase::kData] = 0.1;
  seconds[Phase::kForward] = 0.3;
  seconds[Phase::kBackward] = 0.5;
  seconds[Phase::kExchange] = 0.05;
  seconds[Phase::kUpdate] = 0.04;
  seconds[Phase::kOther] = 0.01;
  EXPECT_THAT(
      StepTable(seconds, 3, 4, /*recorded=*/false),
      testing::ElementsAre(
          "where the time of steps 3 to 4 went (profiled steps take longer):",
          "  waiting for data              50.00 ms   10.0 %", "  forward                      150.00 ms   30.0 %",
          "  backward                     250.00 ms   50.0 %", "  exposed communication         25.00 ms    5.0 %",
          "  update                        20.00 ms    4.0 %", "  other                          5.00 ms    1.0 %",
          "  a step                       500.00 ms  100.0 %"));
  EXPECT_EQ(StepTable(seconds, 3, 3, /*recorded=*/true)[2], "  forward to update            300.00 ms   30.0 %");
}

// With a GPU the host cannot tell forward from backward.
TEST(HostTimes, OfAGpuAreWaitingSavingEvaluatingAndTheRest) {
  HostTimes times(/*host_computes=*/false, 0);
  for (const Phase part :
       {Phase::kOther, Phase::kData, Phase::kBackward, Phase::kEvaluation, Phase::kSaving, Phase::kExchange}) {
    times.Enter(part);
    SpendAMoment();
  }
  const TimeParts parts = times.UpToNow();
  for (const Phase part : {Phase::kBackward, Phase::kExchange, Phase::kUpdate, Phase::kOther}) {
    EXPECT_EQ(parts[part], 0);
  }
  for (const Phase part : {Phase::kForward, Phase::kData, Phase::kEvaluation, Phase::kSaving}) {
    EXPECT_GT(parts[part], 0);
  }
}

}  // namespace
}  // namespace dtrain::loop
