#include "trainer/control/stall_watch.h"

#include <gtest/gtest.h>

namespace dtrain::control {
namespace {

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
