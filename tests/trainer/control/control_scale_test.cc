// The control server with as many ranks as the largest clusters have. This thread plays all of them, and the processor
// time of the other threads is the server's. None of what it does may grow with the square of the number of ranks.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/trainer/control/loopback_ranks.h"
#include "trainer/control/control_message.h"
#include "trainer/control/stall_watch.h"

namespace dtrain::control {
namespace {

using nlohmann::json;

Clock::time_point Patience() { return Clock::now() + std::chrono::seconds(60); }

class PlayedRanks {
 public:
  PlayedRanks(int port, size_t ranks) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::string reason;
      sockets_.push_back(TryConnect("127.0.0.1", port, Patience(), &reason));
      if (!sockets_.back().is_open()) throw std::runtime_error(std::to_string(rank) + ": " + reason);
      hellos.push_back(MakeHello(static_cast<int>(rank), static_cast<int>(ranks)));
      sockets_.back().Send(hellos.back().dump());
    }
  }
  std::vector<json> hellos;

  void SendAll(const std::function<json(size_t rank)>& message) {
    for (size_t rank = 0; rank < sockets_.size(); ++rank) sockets_[rank].Send(message(rank).dump());
  }
  // Waits at each rank for a message of this kind, past those of other kinds.
  std::vector<json> Await(const std::string& kind) {
    std::vector<json> messages(sockets_.size(), json::object());
    for (size_t rank = 0; rank < sockets_.size(); ++rank) {
      while (messages[rank].value("kind", "") != kind) {
        const auto line = WaitForLine(sockets_[rank], Patience());
        if (!line) throw std::runtime_error("rank " + std::to_string(rank) + " waits for " + kind);
        messages[rank] = json::parse(*line);
      }
    }
    return messages;
  }
  void KillTheLast() { sockets_.pop_back(); }

 private:
  std::vector<LineSocket> sockets_;
};

// Returns the server's seconds for each part of a run: all ranks join and start, send heartbeats for a second, agree on
// a stop, and one rank dies.
std::vector<std::pair<std::string, double>> Measure(size_t ranks) {
  const int listening = launch::ListenOn("127.0.0.1", 0);
  const ControlServer server(
      {.listening_descriptor = listening, .token = "token", .world_size = static_cast<int>(ranks)});
  std::vector<std::pair<std::string, double>> parts;
  double before = SecondsOfOtherThreads();
  const auto lap = [&](const std::string& part) {
    const double now = SecondsOfOtherThreads();
    parts.emplace_back(part, now - std::exchange(before, now));
  };
  PlayedRanks played(launch::PortOf(listening), ranks);
  const std::vector<json> challenges = played.Await("challenge");
  played.SendAll([&](size_t rank) {
    const std::string proof = ProofOfClient("token", challenges[rank].at("nonce"), played.hellos[rank]);
    return json{{"kind", "proof"}, {"proof", proof}};
  });
  played.Await("welcome");
  lap("join");

  json config;  // with about as many keys as a training has flags
  for (int i = 0; i < 120; ++i)
    config["a_flag_of_this_run_" + std::to_string(i)] = "its value, number " + std::to_string(i);
  played.SendAll([&](size_t) { return json{{"kind", "config"}, {"config", config}}; });
  played.Await("go");
  lap("start");

  Position position;
  for (auto tick = Clock::now(); position.step < 10; tick += kTick) {
    std::this_thread::sleep_until(tick);
    ++position.point;
    ++position.step;
    played.SendAll([&](size_t) { return json{{"kind", "at"}, {"at", ToJson(position)}}; });
  }
  lap("heartbeats");

  played.SendAll([&](size_t rank) {
    return rank == ranks / 2 ? json{{"kind", "stop"}} : json{{"kind", "at"}, {"at", ToJson(position)}};
  });
  const std::vector<json> proposals = played.Await("propose");
  played.SendAll([&](size_t rank) { return json{{"kind", "accept"}, {"point", proposals[rank].at("point")}}; });
  played.Await("commit");
  lap("stop");

  played.KillTheLast();
  played.Await("end");
  return parts;
}

TEST(ControlScale, GrowsLinearlyTo1024Ranks) {
  constexpr rlim_t kUsualOpenFiles = 1024, kNeeded = 2 * 1024 + 512;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < kNeeded) {
    GTEST_SKIP() << "needs " << kNeeded << " open files: run it after ulimit -Hn " << kNeeded;
  }
  files.rlim_cur = kUsualOpenFiles;  // the server asks for more
  setrlimit(RLIMIT_NOFILE, &files);
  const auto few = Measure(128), many = Measure(1024);
  // With eight times the ranks, linear growth is 8 and quadratic growth 64. Processor time is hardly longer on a busy
  // machine, but counted in hundredths of a second. Something for each pair of the 1,024 ranks takes a second or more.
  constexpr double kMost = 20;
  constexpr double kNoise = 0.3;  // seconds
  for (size_t i = 0; i < few.size(); ++i) EXPECT_LT(many[i].second, kMost * few[i].second + kNoise) << many[i].first;
}

}  // namespace
}  // namespace dtrain::control
