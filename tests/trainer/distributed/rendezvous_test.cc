// Ranks meet as in a real run, through rank 0's control server and its store. control_plane_test.cc tests refusals.
#include "trainer/distributed/rendezvous.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <future>
#include <utility>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/message_of.h"
#include "tests/trainer/distributed/ranks_in_threads.h"
#include "trainer/errors.h"
#include "trainer/launch/local_address.h"

namespace dtrain::distributed {
namespace {

TEST(Rendezvous, AllMeetAndShare) {
  const FreePort port;
  std::atomic<int> agreed = 0;
  RunRanks(3, [&](int rank) {
    Rendezvous rendezvous({.launch = LaunchOf(rank, 3, port.port), .listen_fd = rank == 0 ? port.fd : -1}, {});
    if (rendezvous.ShareFromFirst("name", "of rank " + std::to_string(rank)) == "of rank 0") ++agreed;
    rendezvous.WaitForAll(R"({"model":"resnet50"})");
    rendezvous.control()->Leave();
  });
  EXPECT_EQ(agreed, 3);
}

// Returns the warnings of rank 0 when it listens on `address` with `token`.
std::vector<std::string> WarningsAt(const std::string& address, const std::string& token) {
  launch::Launch launch = LaunchOf(0, 2, /*port=*/0);
  launch.master_addr = address;
  launch.token = token;
  std::vector<std::string> warnings;
  control::ControlPlaneOptions control;
  control.warn = [&](const std::string& text) { warnings.push_back(text); };
  const Rendezvous rendezvous({.launch = launch}, control);
  return warnings;
}

TEST(Rendezvous, WithoutATokenOneWarningUnlessOnLoopback) {
  EXPECT_TRUE(WarningsAt("127.0.0.1", "").empty());
  const std::string address = launch::OwnAddress();
  if (launch::IsLoopback(address))
    GTEST_SKIP() << "needs an address beside loopback's: run it where a network interface is up";
  const auto warnings = WarningsAt(address, "");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("DTRAIN_RUN_TOKEN"), std::string::npos) << warnings[0];
  EXPECT_TRUE(WarningsAt(address, "secret").empty());
}

// Ranks meet as under torchrun: the launcher's store is the board on which an earlier attempt has left its address.
class Board : public testing::Test {
 protected:
  Board() : store_(ServeStore(port_)), board_("127.0.0.1", port_.port, {}) {}

  Rendezvous Meet(int rank) const {
    launch::Launch launch = LaunchOf(rank, 2, port_.port);
    launch.agent_store = true;
    launch.restart_count = 1 - rank;  // rank 1 is on a node that was added later and has seen fewer restarts
    return Rendezvous({.launch = launch, .init_timeout_seconds = kTimeoutSeconds}, {});
  }

  const FreePort port_;
  const c10::intrusive_ptr<c10d::Store> store_;
  AgentBoard board_;
};

TEST_F(Board, TheNewestPostingLeadsToRankZero) {
  EXPECT_FALSE(board_.Read().has_value());
  board_.Post({"127.0.0.1", 1, "old"});
  std::atomic<int> met = 0;
  RunRanks(2, [&](int rank) {
    Rendezvous rendezvous = Meet(rank);
    rendezvous.WaitForAll("{}");
    ++met;
    EXPECT_EQ(rendezvous.was_started_before(), rank == 0);
    rendezvous.control()->Leave();
  });
  EXPECT_EQ(met, 2);
  EXPECT_GT(board_.Read()->port, 1);
}

// Rank 0 of an earlier attempt still listens and has all its ranks, so it refuses a rank of the new attempt.
TEST_F(Board, AnEarlierRankZeroThatIsStillThereDoesNotMatter) {
  std::promise<void> refused;
  const int listening = control::ListenOn("127.0.0.1", 0);
  const control::Endpoint earlier{"127.0.0.1", launch::PortOf(listening), "earlier"};
  bool told = false;
  const control::ControlServer server(
      {.listening_descriptor = listening, .token = "earlier", .world_size = 2, .warn = [&](const std::string&) {
         if (!std::exchange(told, true)) refused.set_value();
       }});
  const control::Joined twin = control::Join({.locate = [&] { return earlier; }, .rank = 1, .world_size = 2});
  board_.Post(earlier);
  std::atomic<int> met = 0;
  RunRanks(2, [&](int rank) {
    if (rank == 0) refused.get_future().wait();
    Rendezvous rendezvous = Meet(rank);
    rendezvous.WaitForAll("{}");
    ++met;
    rendezvous.control()->Leave();
  });
  EXPECT_EQ(met, 2);
}

TEST_F(Board, ARankZeroThatPostsNothingIsMissed) {
  const auto join = [&] {
    control::Join({.locate = [&] { return board_.Read(); }, .rank = 1, .world_size = 2, .timeout_seconds = 0.2});
  };
  EXPECT_EQ(MessageOf(join), "rank 0 has not posted its address on the launcher's store");
}

TEST(AgentBoard, DoesNotWaitForAListenerThatNeverAnswers) {
  const int silent = control::ListenOn("127.0.0.1", 0);
  const auto start = control::Clock::now();
  EXPECT_THROW(AgentBoard("127.0.0.1", launch::PortOf(silent), {.timeout_seconds = 0.3}), PeerLostError);
  EXPECT_THROW(
      AgentBoard("127.0.0.1", launch::PortOf(silent), {.timeout_seconds = 0.3, .stop_requested = [] { return true; }}),
      Preempted);
  EXPECT_LT(control::Clock::now() - start, std::chrono::seconds(30));
  close(silent);
}

}  // namespace
}  // namespace dtrain::distributed
