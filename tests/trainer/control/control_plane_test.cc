// Ranks are threads on real sockets. A failure that would end a rank's process is only recorded.
#include "trainer/control/control_plane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <thread>

#include "tests/message_of.h"
#include "tests/trainer/control/loopback_ranks.h"
#include "trainer/errors.h"

namespace dtrain::control {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

// ---- Bad records --------------------

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

TEST(ControlPlane, RefusesDuplicatesOtherRunsAndOtherWorldSizes) {
  LoopbackRanks ranks(2);
  ControlPlane& first = ranks.Start(0);
  EXPECT_THAT(MessageOf([&] { Join(ranks.JoinOptionsOf(0)); }), HasSubstr("rank 0 joined twice"));
  JoinOptions foreign = ranks.JoinOptionsOf(1);
  foreign.locate = [&] { return Endpoint{"127.0.0.1", ranks.port(), "other"}; };
  EXPECT_THAT(MessageOf([&] { Join(foreign); }), HasSubstr("belongs to another run"));
  JoinOptions larger = ranks.JoinOptionsOf(1);
  larger.world_size = 3;
  EXPECT_THAT(MessageOf([&] { Join(larger); }), HasSubstr("a world size of 3, but rank 0 has 2"));
  EXPECT_THAT(MessageOf([&] { first.WaitForAll("{}"); }), HasSubstr("a world size of 3, but rank 0 has 2"));
}

TEST(ControlPlane, WhoComesAfterTheEndHearsOfIt) {
  LoopbackRanks ranks(3);
  ControlPlane& first = ranks.Start(0);
  JoinOptions larger = ranks.JoinOptionsOf(1);
  larger.world_size = 4;
  MessageOf([&] { Join(larger); });
  ControlPlane& late = ranks.Start(2);
  EXPECT_THAT(MessageOf([&] { late.WaitForAll("{}"); }), HasSubstr("a world size of 4"));
  EXPECT_THAT(MessageOf([&] { first.WaitForAll("{}"); }), HasSubstr("a world size of 4"));
}

// ---- Stopping --------------------

// Each rank passes points at its own pace, and rank 2 is asked to stop on the way.
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

TEST(ControlPlane, AStopBeforeTheStartEndsAll) {
  LoopbackRanks ranks(3);
  std::string said;
  ranks.RunOnly({0, 2}, [&](int rank) {
    ControlPlane& control = ranks.Start(rank);
    if (rank == 2) ranks.RequestStop(2);
    const std::string message = MessageOf([&] { control.WaitForAll("{}"); });
    if (rank == 0) said = message;
  });
  EXPECT_EQ(said, "stopped before the training began");
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

// ---- Losing ranks --------------------

// Starts all ranks, and calls `body` on each once all have left WaitForAll. Otherwise a rank that is lost would end
// others that are still in it.
void RunUnderWay(LoopbackRanks& ranks, const std::function<void(int rank, ControlPlane& control)>& body) {
  std::barrier all_here(static_cast<int>(ranks.ends().size()));
  ranks.Run([&](int rank) {
    ControlPlane& control = ranks.Start(rank);
    control.WaitForAll("{}");
    all_here.arrive_and_wait();
    body(rank, control);
  });
}

TEST(ControlPlane, ARankThatIsGoneIsNamedByAllOthers) {
  for (const int gone : {0, 1}) {  // rank 0 takes the server with it
    LoopbackRanks ranks(3);
    RunUnderWay(ranks, [&](int rank, ControlPlane& /*control*/) {
      if (rank == gone) return ranks.Kill(rank);
      ranks.WaitForEnd(rank);
    });
    const std::vector<std::string> ends = ranks.ends();
    EXPECT_THAT(ends[2], AllOf(StartsWith("rank " + std::to_string(gone)), HasSubstr("is gone")));
    EXPECT_EQ(ends[static_cast<size_t>(1 - gone)], ends[2]);
  }
}

TEST(ControlPlane, OneRanksFailureIsTheReasonOfTheOthers) {
  LoopbackRanks ranks(3);
  RunUnderWay(ranks, [&](int rank, ControlPlane& control) {
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

TEST(ControlPlane, NobodyIsThereToTellOfADeath) {
  const auto start = Clock::now();
  EXPECT_FALSE(PostDeath({"127.0.0.1", 1, ""}, 0, "killed", start + std::chrono::seconds(1)));
}

TEST(ControlPlane, ARankThatStandsStillIsNamedByAll) {
  LoopbackRanks ranks(2, {.comm_timeout_seconds = 2});  // longer than a busy machine delays a heartbeat
  ranks.Run([&](int rank) {
    ControlPlane& control = ranks.Start(rank);
    control.WaitForAll("{}");
    control.Enter(Phase::kData);
    if (rank == 0) control.Enter(Phase::kForward);
    ranks.WaitForEnd(rank);
  });
  for (const std::string& end : ranks.ends()) {
    EXPECT_THAT(
        end, MatchesRegex("rank 1 has stood still for [0-9.]+ s, after step 0: waiting for data, host .*, process .*"));
  }
}

}  // namespace
}  // namespace dtrain::control
