// Ranks meet as in a real run, through rank 0's control server and its store. control_plane_test.cc tests refusals.
#include "trainer/distributed/rendezvous.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <future>
#include <utility>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/message_of.h"
#include "tests/trainer/distributed/ranks_in_threads.h"
#include "trainer/distributed/sealed_store.h"
#include "trainer/errors.h"
#include "trainer/launch/local_address.h"

namespace dtrain::distributed {
namespace {

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
  const int listening = launch::ListenOn("127.0.0.1", 0);
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
  const int silent = launch::ListenOn("127.0.0.1", 0);
  const auto start = control::Clock::now();
  EXPECT_THROW(AgentBoard("127.0.0.1", launch::PortOf(silent), {.timeout_seconds = 0.3}), PeerLostError);
  EXPECT_THROW(
      AgentBoard("127.0.0.1", launch::PortOf(silent), {.timeout_seconds = 0.3, .stop_requested = [] { return true; }}),
      Preempted);
  EXPECT_LT(control::Clock::now() - start, std::chrono::seconds(30));
  close(silent);
}

// Ranks exchange invented GPUs, so the test needs none. device_test.cc has those that are not the same.
TEST(DistinctGpus, TwoRanksOnOneGpuAreRefusedOnAllRanks) {
  const device::Gpu shared{"", 0, 0, "0000:17:00.0", "e1"}, own{"", 0, 0, "0000:18:00.0", "f2"};
  RunMet(2, [&](int rank, Rendezvous& met) { RequireDistinctGpus(met, rank == 0 ? shared : own, "a machine"); });
  std::vector<std::string> told(3);
  RunMet(3, [&](int rank, Rendezvous& met) {
    const auto agree = [&] { RequireDistinctGpus(met, rank == 1 ? own : shared, "a machine"); };
    told[static_cast<size_t>(rank)] = MessageOf(agree);
  });
  for (const std::string& message : told) {
    EXPECT_NE(message.find("ranks 0 and 2 compute on the same GPU 0000:17:00.0 of "), std::string::npos) << message;
  }
}

using Bytes = std::vector<uint8_t>;

class SealedStoreTest : public testing::Test {
 protected:
  const c10::intrusive_ptr<c10d::HashStore> open_ = c10::make_intrusive<c10d::HashStore>();
  SealedStore store_{open_, "token"};
};

TEST_F(SealedStoreTest, ReturnsWhatTheRunHasWritten) {
  for (const Bytes& value : {Bytes{}, Bytes{0}, Bytes(100'000, 7)}) {
    store_.set("key", value);
    EXPECT_EQ(store_.get("key"), value);
    EXPECT_EQ(store_.clone()->get("key"), value);
  }
  EXPECT_EQ(store_.compareSet("first", Bytes{}, Bytes{1}), Bytes{1});
  EXPECT_EQ(store_.compareSet("first", Bytes{}, Bytes{2}), Bytes{1});
  store_.multiSet({"a", "b"}, {Bytes{3}, Bytes{4}});
  EXPECT_EQ(store_.multiGet({"a", "b"}), (std::vector<Bytes>{Bytes{3}, Bytes{4}}));
}

TEST_F(SealedStoreTest, BelievesNothingElse) {
  store_.set("other", Bytes{1});
  SealedStore foreign(open_, "another token");
  foreign.set("foreign", Bytes{1});
  Bytes changed = open_->get("other");
  changed.back() ^= 1;
  open_->set("moved", open_->get("other"));
  open_->set("changed", changed);
  open_->set("empty", Bytes{});
  open_->set("short", Bytes(63, '0'));
  open_->set("plain", Bytes(200, '0'));
  for (const char* key : {"foreign", "moved", "changed", "empty", "short", "plain"}) {
    EXPECT_THROW(store_.get(key), PeerLostError) << key;
    EXPECT_THROW(store_.multiGet({"other", key}), PeerLostError) << key;
    if (std::string(key) != "empty") {
      EXPECT_THROW(store_.compareSet(key, Bytes{}, Bytes{1}), PeerLostError) << key;
    }
  }
  EXPECT_EQ(store_.get("other"), Bytes{1});
}

TEST(ParseEndpoint, TakesWhatIsPostedAndNothingElse) {
  const control::Endpoint endpoint = ParseEndpoint(R"({"host":"h","port":65535,"token":"t"})");
  EXPECT_EQ(endpoint.host, "h");
  EXPECT_EQ(endpoint.port, 65535);
  EXPECT_EQ(endpoint.token, "t");
  for (const std::string& posting :
       {std::string(""), std::string("[]"), std::string(R"({"host":7,"port":1,"token":"t"})"),
        std::string(R"({"host":"h","port":65536,"token":"t"})"), std::string(R"({"host":"h","port":-1,"token":"t"})"),
        std::string(R"({"host":"h","port":1e300,"token":"t"})"), std::string(100'000, '[')}) {
    EXPECT_THROW(ParseEndpoint(posting), PeerLostError) << posting.substr(0, 50);
  }
}

}  // namespace
}  // namespace dtrain::distributed
