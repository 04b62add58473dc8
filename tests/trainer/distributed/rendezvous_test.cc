// Ranks that meet through everything: rank 0's control server, then its store. Who is refused: control_plane_test.cc.
#include "trainer/distributed/rendezvous.h"

#include <gtest/gtest.h>

#include <atomic>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/trainer/distributed/ranks_in_threads.h"

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

// As under torchrun: the launcher's store is a bulletin board, on which an earlier attempt has left its address.
TEST(Rendezvous, FindsRankZeroThroughTheLaunchersStore) {
  const FreePort port;
  const auto board = ServeStore(port);
  launch::Launch launch = LaunchOf(0, 2, port.port);
  launch.agent_store = true;
  PostAddress(*board, launch, R"({"host":"127.0.0.1","port":1,"token":"old"})");
  std::atomic<int> met = 0;
  RunRanks(2, [&](int rank) {
    launch::Launch own = launch;
    own.rank = own.local_rank = rank;
    Rendezvous rendezvous({.launch = own, .init_timeout_seconds = 20}, {});
    rendezvous.WaitForAll("{}");
    ++met;
    rendezvous.control()->Leave();
  });
  EXPECT_EQ(met, 2);
}

}  // namespace
}  // namespace dtrain::distributed
