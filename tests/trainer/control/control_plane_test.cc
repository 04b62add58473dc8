// Ranks are threads on real sockets. A failure that would end a rank's process is only recorded.
#include "trainer/control/control_plane.h"

#include <gmock/gmock.h>

#include <barrier>
#include <thread>

#include "tests/message_of.h"
#include "tests/trainer/control/loopback_ranks.h"
#include "trainer/errors.h"

namespace dtrain::control {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Ranks 0 and 1 both meet record 7, and rank 1 meets record 9: two different records, one more than the budget.
TEST(ControlPlane, BadRecordsOfAllRanksTogetherEndThemAll) {
  LoopbackRanks ranks(3);
  const data::QuarantineOptions options{.split = "train", .max_bad_records = 0.01};
  const auto bad = [](int64_t index) {
    return data::BadRecord{"train", index, {"data.tar", 512 * index}, "truncated"};
  };
  std::barrier all(3);
  ranks.Run([&](int rank) {
    ControlPlane& control = ranks.Start(rank);
    control.WaitForAll("{}");
    if (rank < 2) control.NoteBadRecord(bad(7), 100, options);
    while (control.bad_records("train") < 1) std::this_thread::yield();
    EXPECT_EQ(control.bad_records("train"), 1);
    all.arrive_and_wait();
    if (rank == 1) control.NoteBadRecord(bad(9), 100, options);
    ranks.WaitForEnd(rank);
  });
  EXPECT_THAT(ranks.ends(), testing::Each("train: 2 bad records of 100, and the budget is 1; the latest is data.tar at "
                                          "byte 4608: truncated"));
}

TEST(ControlPlane, ALoneRankCountsForItselfAndStopsWhenAsked) {
  bool asked = false;
  ControlPlane alone([&asked] { return asked; });
  alone.WaitForAll("{}");
  alone.NoteBadRecord({"val", 1, {"a.jpg"}, "empty"}, 10, {.split = "val"});
  EXPECT_EQ(alone.bad_records("val"), 1);
  EXPECT_EQ(alone.bad_records("train"), 0);
  EXPECT_FALSE(alone.StopsHere(1));
  asked = true;
  EXPECT_TRUE(alone.StopsHere(2));
  alone.Leave();
}

// Each rank passes points at its own pace, and rank 2 is asked to stop on the way.
TEST(ControlPlane, WhoWaitsInTheExchangeIsAheadOfWhoeverHasMoreShards) {
  ControlPlane waits([] { return false; }), works([] { return false; });
  waits.Enter(Phase::kForward);
  waits.Enter(Phase::kExchange);
  for (int shard = 0; shard < 3; ++shard) works.Enter(Phase::kForward);
  EXPECT_TRUE(works.position().IsBehind(waits.position()));
}

TEST(ControlPlane, AllStopAtTheSamePoint) {
  for (int round = 0; round < 5; ++round) {
    constexpr int kWorld = 4;
    LoopbackRanks ranks(kWorld);
    std::vector<int64_t> stopped(kWorld);
    ranks.Run([&](int rank) {
      ControlPlane& control = ranks.Start(rank);
      control.WaitForAll("{}");
      int64_t step = 1;
      // No collective keeps these ranks together, just as during an evaluation that is fast on one and slow on another.
      while (!control.StopsHere(step)) {
        std::this_thread::sleep_for(std::chrono::microseconds(50 * (rank + 1)));
        if (++step == 100 && rank == 2) ranks.RequestStop(rank);
      }
      stopped[static_cast<size_t>(rank)] = step;
      control.Leave();
    });
    EXPECT_GE(stopped[2], 100);
    EXPECT_THAT(stopped, testing::Each(stopped[0]));
    EXPECT_EQ(ranks.ends(), std::vector<std::string>(kWorld, ""));
  }
}

// Ranks that join soon after the stop hear of it, and a rank that was itself asked to stop still tells the others.
TEST(ControlPlane, AStopBeforeTheStartReachesThoseWhoComeSoon) {
  LoopbackRanks ranks(3);
  ranks.RequestStop(0);
  ranks.RequestStop(1);
  std::vector<std::string> said(3);
  ranks.Run([&](int rank) {
    ControlPlane& control = ranks.Start(rank);
    said[static_cast<size_t>(rank)] = MessageOf([&] { control.WaitForAll("{}"); });
  });
  EXPECT_THAT(said, testing::Each("stopped before the training began"));
}

TEST(ControlPlane, OneRanksFailureIsTheReasonOfTheOthers) {
  LoopbackRanks ranks(3);
  std::barrier all_here(3);  // or the one that is lost would end others that are still in WaitForAll
  ranks.Run([&](int rank) {
    ControlPlane& control = ranks.Start(rank);
    control.WaitForAll("{}");
    all_here.arrive_and_wait();
    if (rank == 1) {
      const report::Failure own{.code = ExitCode::kData, .message = "a bad picture", .hint = "", .rank = 1};
      EXPECT_EQ(control.SettleFailure(own).message, "a bad picture");
      return;
    }
    // The failure of a rank on which a collective has thrown: only a consequence.
    const report::Failure consequence{.code = ExitCode::kPeerLost, .message = "broken pipe", .hint = "", .rank = rank};
    const report::Failure reported = control.SettleFailure(consequence);
    EXPECT_THAT(reported.message, HasSubstr("failed (exit code 3): a bad picture"));
    EXPECT_EQ(reported.code, ExitCode::kPeerLost);
  });
}

bool PostDeathOf(const LoopbackRanks& ranks, int rank) {
  return PostDeath(ranks.endpoint(), rank, "killed by signal 9", Clock::now() + std::chrono::seconds(5));
}

TEST(ControlPlane, ADeathBeforeTheRankHasComeEndsAll) {
  LoopbackRanks ranks(2);
  ControlPlane& first = ranks.Start(0);
  EXPECT_TRUE(PostDeathOf(ranks, 1));
  EXPECT_THAT(MessageOf([&] { first.WaitForAll("{}"); }),
              StartsWith("rank 1 has died: killed by signal 9 (its launcher: host "));
}

// The launchers of other runs, or of the same ranks once more, whose ranks were refused.
TEST(ControlPlane, ADeathOfNoneOfItsRanksEndsNothing) {
  LoopbackRanks ranks(2);
  std::barrier all_here(2);
  ranks.Run([&](int rank) {
    ControlPlane& control = ranks.Start(rank);
    EXPECT_TRUE(rank != 0 || PostDeathOf(ranks, 2));
    control.WaitForAll("{}");
    EXPECT_TRUE(rank != 0 || PostDeathOf(ranks, 1));
    all_here.arrive_and_wait();
    control.Leave();
  });
  EXPECT_EQ(ranks.ends(), std::vector<std::string>(2, ""));
}

// Rank 0's process may live on for a while. Who joined it then would end with it, and use up a restart.
TEST(ControlPlane, ARankThatIsStartedAgainDoesNotJoinTheEndedAttempt) {
  LoopbackRanks ranks(2);
  ControlPlane& first = ranks.Start(0);
  Join(ranks.JoinOptionsOf(1)).socket.Close();
  EXPECT_THAT(MessageOf([&] { first.WaitForAll("{}"); }), HasSubstr("is gone"));
  JoinOptions again = ranks.JoinOptionsOf(1);
  again.locate = [&ranks, tries = 0]() mutable -> std::optional<Endpoint> {
    if (++tries > 1) throw PeerLostError("it tries again");
    return ranks.endpoint();
  };
  EXPECT_ERROR("it tries again", Join(again));
}

TEST(ControlPlane, NobodyIsThereToTellOfADeath) {
  const auto start = Clock::now();
  EXPECT_FALSE(PostDeath({"127.0.0.1", 1, ""}, 0, "killed", start + std::chrono::seconds(1)));
}

}  // namespace
}  // namespace dtrain::control
