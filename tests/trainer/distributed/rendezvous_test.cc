// Ranks that meet, that are missing, that are there twice, that were started differently.
#include "trainer/distributed/rendezvous.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "tests/trainer/distributed/ranks_in_threads.h"
#include "trainer/errors.h"

namespace dtrain::distributed {
namespace {

std::string MessageOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Rendezvous, AllMeetAndShare) {
  const FreePort port;
  std::atomic<int> agreed = 0;
  RunRanks(3, [&](int rank) {
    Rendezvous rendezvous(LaunchOf(rank, 3, port.port), rank == 0 ? port.fd : -1, kTimeoutSeconds);
    rendezvous.Handshake(R"({"model":"resnet50"})");
    if (rendezvous.ShareFromFirst("name", "of rank " + std::to_string(rank)) == "of rank 0") ++agreed;
    rendezvous.Leave();
  });
  EXPECT_EQ(agreed, 3);
}

TEST(Rendezvous, TellsAllRanksTheDifferingKeyAndBothValues) {
  const FreePort port;
  std::mutex mutex;
  std::string message;
  RunRanks(2, [&](int rank) {
    Rendezvous rendezvous(LaunchOf(rank, 2, port.port), rank == 0 ? port.fd : -1, kTimeoutSeconds);
    const std::string said = MessageOf([&] { rendezvous.Handshake(rank == 0 ? R"({"lr":0.1})" : R"({"lr":0.2})"); });
    rendezvous.Leave();
    const std::lock_guard lock(mutex);
    message += said;
  });
  const std::string expected = "rank 1 disagrees with rank 0: lr is 0.2, not 0.1";
  EXPECT_EQ(message, expected + expected);
}

TEST(Rendezvous, NamesMissingRanks) {
  const FreePort port;
  Rendezvous rendezvous(LaunchOf(0, 3, port.port), port.fd, 0.5);
  const std::string message = MessageOf([&] { rendezvous.Handshake("{}"); });
  EXPECT_NE(message.find("waiting for 2 of 3 ranks: 1, 2"), std::string::npos) << message;
}

TEST(Rendezvous, RefusesARankThatIsThereTwice) {
  const FreePort port;
  std::atomic<int> refused = 0;
  RunRanks(2, [&](int rank) {
    Rendezvous rendezvous(LaunchOf(rank, 2, port.port), rank == 0 ? port.fd : -1, kTimeoutSeconds);
    rendezvous.Handshake("{}");
    // A second process with the same rank would do the same again.
    if (rank == 1 && MessageOf([&] { rendezvous.Handshake("{}"); }) == "rank 1 is there twice") ++refused;
    rendezvous.Leave();
  });
  EXPECT_EQ(refused, 1);
}

TEST(Rendezvous, SaysThatThePortIsTaken) {
  const FreePort port;
  launch::Launch launch = LaunchOf(0, 2, port.port);
  const std::string message = MessageOf([&] { Rendezvous rendezvous(launch, -1, 1); });
  EXPECT_NE(message.find("rank 0 cannot listen on 127.0.0.1:" + std::to_string(port.port)), std::string::npos)
      << message;
}

TEST(Rendezvous, SaysThatNobodyAnswers) {
  launch::Launch launch = LaunchOf(1, 2, 1);  // port 1: nobody
  const std::string message = MessageOf([&] { Rendezvous rendezvous(launch, -1, 1); });
  EXPECT_NE(message.find("no store answers at 127.0.0.1:1"), std::string::npos) << message;
}

TEST(Rendezvous, SaysThatAnAddressDoesNotResolve) {
  launch::Launch launch = LaunchOf(1, 2, 1234);
  launch.master_addr = "no-such-host.invalid";
  EXPECT_NE(MessageOf([&] { Rendezvous rendezvous(launch, -1, 1); }).find("does not resolve"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::distributed
