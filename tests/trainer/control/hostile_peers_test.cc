// Strangers that connect to rank 0, a false rank 0, and broken ranks. Without the run's token a connection has no
// influence on the run, and no line of an admitted rank does harm.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fcntl.h>

#include <condition_variable>
#include <ctime>
#include <mutex>
#include <semaphore>
#include <thread>

#include "tests/message_of.h"
#include "tests/trainer/control/loopback_ranks.h"
#include "trainer/control/control_message.h"
#include "trainer/errors.h"

namespace dtrain::control {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Clock::time_point Soon() { return Clock::now() + std::chrono::seconds(10); }

LineSocket Connect(int port) {
  std::string reason;
  LineSocket socket = TryConnect("127.0.0.1", port, Soon(), &reason);
  EXPECT_TRUE(socket.is_open()) << reason;
  return socket;
}

TEST(HostilePeers, AnAnswerIsOfNoUseToAnotherConnection) {
  LoopbackRanks ranks(2);
  ranks.Start(0);
  LineSocket one = Connect(ranks.port()), other = Connect(ranks.port());
  const json hello = MakeHello(1, 2);
  one.Send(ControlLine(hello));
  const json challenge = ParseControlLine(WaitForLine(one, Soon()).value(), Speaker::kGreeting);
  other.Send(ControlLine(hello));
  WaitForLine(other, Soon());
  const std::string proof = ProofOfClient("token", challenge.at("nonce"), hello);
  other.Send(ControlLine({{"kind", "proof"}, {"proof", proof}}));
  EXPECT_THAT(WaitForLine(other, Soon()).value(), HasSubstr("refused"));
  one.Send(ControlLine({{"kind", "proof"}, {"proof", proof}}));
  EXPECT_THAT(WaitForLine(one, Soon()).value(), HasSubstr("welcome"));
}

TEST(HostilePeers, ManyIdleStrangersKeepNobodyOut) {
  LoopbackRanks ranks(2);
  std::vector<LineSocket> strangers;
  ControlPlane& first = ranks.Start(0);
  for (int i = 0; i < 400; ++i) {
    LineSocket& stranger = strangers.emplace_back(Connect(ranks.port()));
    if (i % 2 == 0) stranger.Send(ControlLine(MakeHello(-1, 0)));
  }
  while (strangers.front().is_open()) WaitForLine(strangers.front(), Soon());
  EXPECT_TRUE(strangers.back().Receive()) << "the oldest makes room, not the last to come";
  std::jthread other([&] { ranks.Start(1).WaitForAll("{}"); });
  first.WaitForAll("{}");
  other.join();
  EXPECT_EQ(ranks.ends(), std::vector<std::string>(2, ""));
  // The remaining strangers are disconnected after some seconds. Of the last two, one sent a hello, one nothing.
  for (size_t i = strangers.size() - 2; i < strangers.size(); ++i) {
    const auto patience = Clock::now() + std::chrono::seconds(30);
    while (strangers[i].is_open() && Clock::now() < patience) WaitForLine(strangers[i], patience);
    EXPECT_FALSE(strangers[i].is_open());
  }
}

// While no descriptor is free, the connection that waits to be accepted must not keep the server's thread busy.
TEST(HostilePeers, NoDescriptorLeftSpinsNoCore) {
  LoopbackRanks ranks(2);
  ranks.Start(0);
  LineSocket waiting;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  std::vector<LineSocket> taken;
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(before.rlim_max, 512);
  setrlimit(RLIMIT_NOFILE, &few);
  int descriptor = -1;
  while ((descriptor = dup(0)) >= 0) taken.emplace_back(descriptor);
  taken.pop_back();
  waiting = Connect(ranks.port());
  const double before_it = SecondsOfOtherThreads();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double others = SecondsOfOtherThreads() - before_it;
  taken.clear();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_LT(others, 0.1);
  EXPECT_TRUE(Join(ranks.JoinOptionsOf(1)).socket.is_open());  // the server accepts connections again
}

TEST(HostilePeers, ALineThatNoRankSendsEndsTheRunAndSaysSo) {
  const std::string line =
      R"({"kind":"config","config":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  LoopbackRanks ranks(2);
  ControlPlane& first = ranks.Start(0);
  Joined broken = Join(ranks.JoinOptionsOf(1));
  while (broken.socket.Send(line) && broken.socket.has_unsent()) broken.socket.Flush();
  EXPECT_ERROR("has sent an invalid message", first.WaitForAll("{}"));
}

TEST(HostilePeers, ARankThatNeverPausesKeepsNobodyFromTheServer) {
  LoopbackRanks ranks(3, /*init_timeout_seconds=*/2);
  ControlPlane& first = ranks.Start(0);
  Joined chatterer = Join(ranks.JoinOptionsOf(2));
  std::jthread chatter([&](const std::stop_token& stop) {
    const std::string line = R"({"kind":"at","at":[0,0,0,0,0.0]})";
    while (!stop.stop_requested() && chatterer.socket.Flush()) {
      if (!chatterer.socket.has_unsent()) chatterer.socket.Send(line);
    }
  });
  EXPECT_ERROR("waiting for 1 of 3 ranks: 1 not there; gave up after --init_timeout", first.WaitForAll("{}"));
}

// Answers one connection as rank 0 would, with `token`, and then sends `lines`.
std::jthread FalseRankZero(int listening, const std::string& token, std::vector<std::string> lines) {
  return std::jthread([listening, token, lines = std::move(lines)](const std::stop_token& stop) {
    LineSocket connection(accept(listening, nullptr, nullptr));
    const json hello = json::parse(WaitForLine(connection, Soon()).value());
    connection.Send(ControlLine({{"kind", "challenge"}, {"nonce", "00"}}));
    WaitForLine(connection, Soon());
    connection.Send(
        ControlLine({{"kind", "welcome"}, {"store_port", 1}, {"proof", ProofOfServer(token, "00", hello)}}));
    for (const std::string& line : lines) connection.Send(line);
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait(lock, stop, [] { return false; });
  });
}

TEST(FalseRankZero, WithoutTheTokenIsNotJoined) {
  const int listening = launch::ListenOn("127.0.0.1", 0);
  const Endpoint endpoint{"127.0.0.1", launch::PortOf(listening), "ours"};
  {
    const std::jthread server = FalseRankZero(listening, "theirs", {});
    EXPECT_THAT(MessageOf([&] { Join({.locate = [&] { return endpoint; }, .rank = 1, .world_size = 2}); }),
                HasSubstr("does not know this run's token"));
  }
  {
    const std::jthread server = FalseRankZero(listening, "ours", {R"({"kind":"end","code":0})"});
    EXPECT_FALSE(PostDeath(endpoint, 1, "killed", Soon()));  // an invalid answer counts as none
  }
  close(listening);
}

TEST(FalseRankZero, ThatIsBrokenEndsTheOthersWithAWord) {
  for (const std::string& line :
       {std::string(R"({"kind":"tick","at":[1,2,3,100000000,0.5]})"), std::string(100'000, '[')}) {
    const int listening = launch::ListenOn("127.0.0.1", 0);
    const Endpoint endpoint{"127.0.0.1", launch::PortOf(listening), "ours"};
    const std::jthread server = FalseRankZero(listening, "ours", {line});
    std::counting_semaphore<> ended{0};
    report::Failure failure;
    ControlPlaneOptions options;
    options.rank = 1;
    options.world_size = 2;
    options.end_process = [&](const report::Failure& end) {
      failure = end;
      ended.release();
    };
    const ControlPlane control(options, Join({.locate = [&] { return endpoint; }, .rank = 1, .world_size = 2}),
                               nullptr);
    ASSERT_TRUE(ended.try_acquire_until(Soon())) << line.substr(0, 80);
    EXPECT_EQ(failure.code, ExitCode::kPeerLost);
    EXPECT_THAT(failure.message, HasSubstr("rank 0 has sent an invalid message"));
    close(listening);
  }
}

// Otherwise a rank whose control plane's thread just returned would wait for ever, and ignore SIGTERM.
TEST(ControlPlane, RankZeroWithoutItsServerEnds) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ControlPlaneOptions options;
  options.world_size = 2;
  std::counting_semaphore<> ended{0};
  options.end_process = [&](const report::Failure&) { ended.release(); };
  Joined joined;
  joined.socket = LineSocket(ends[0]);
  ControlPlane control(options, std::move(joined), nullptr);
  close(ends[1]);
  EXPECT_TRUE(ended.try_acquire_until(Soon()));
}

}  // namespace
}  // namespace dtrain::control
