// The control server with as many ranks as the largest clusters have. The server is in a process of its own, so that
// its processor time can be measured; this process plays its 1,024 ranks. None of what it does may grow with the square
// of the number of ranks.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <functional>
#include <utility>

#include "trainer/control/control_message.h"
#include "trainer/control/control_server.h"
#include "trainer/control/line_socket.h"
#include "trainer/control/stall_watch.h"
#include "trainer/launch/local_address.h"

namespace dtrain::control {
namespace {

using nlohmann::json;

double Seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double Now() { return Seconds(CLOCK_MONOTONIC); }

constexpr rlim_t kUsualOpenFiles = 1024;

// Sets the soft limit to `wanted`, or to the hard limit if that is lower. Returns the new limit.
rlim_t LimitOpenFiles(rlim_t wanted) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min(wanted, files.rlim_max);
  setrlimit(RLIMIT_NOFILE, &files);
  return files.rlim_cur;
}

// A process that runs only a control server.
class ServerProcess {
 public:
  explicit ServerProcess(int world_size) {
    const int listening = ListenOn("127.0.0.1", 0);
    port_ = launch::PortOf(listening);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) throw std::runtime_error("socketpair");
    first_ = pair[0];
    process_ = fork();
    if (process_ == 0) {
      close(pair[0]);
      LimitOpenFiles(kUsualOpenFiles);
      const ControlServer server(
          {.listening_descriptor = listening, .own_descriptor = pair[1], .token = "token", .world_size = world_size});
      while (true) pause();
    }
    close(pair[1]);
    close(listening);
    clock_getcpuclockid(process_, &clock_);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  int port() const { return port_; }
  int first_descriptor() const { return first_; }  // rank 0's end of its connection; the caller closes it
  double processor_seconds() const { return Seconds(clock_); }

 private:
  int port_ = 0, first_ = -1;
  pid_t process_ = -1;
  clockid_t clock_{};
};

// Plays all ranks of a run towards the server.
class PlayedRanks {
 public:
  PlayedRanks(const ServerProcess& server, int world_size) : port_(server.port()) {
    sockets_.resize(static_cast<size_t>(world_size));
    Take(0, LineSocket(server.first_descriptor()));
  }
  ~PlayedRanks() { close(watched_); }
  PlayedRanks(const PlayedRanks&) = delete;
  PlayedRanks& operator=(const PlayedRanks&) = delete;

  int world_size() const { return static_cast<int>(sockets_.size()); }

  void Connect(int rank) {
    std::string reason;
    Take(rank, TryConnect("127.0.0.1", port_, Clock::now() + std::chrono::seconds(20), &reason));
    ASSERT_TRUE(sockets_[static_cast<size_t>(rank)].is_open()) << "rank " << rank << ": " << reason;
  }
  void Send(int rank, const json& message) { sockets_[static_cast<size_t>(rank)].Send(message.dump()); }
  void SendAll(const std::function<json(int rank)>& message) {
    for (int rank = 0; rank < world_size(); ++rank) Send(rank, message(rank));
  }
  void Kill(int rank) { sockets_[static_cast<size_t>(rank)].Close(); }

  // Waits until `count` messages of this kind have arrived, for at most `seconds`, and calls `answer` with each.
  // Returns their number.
  int Await(const std::string& kind, int count, double seconds,
            const std::function<void(int rank, const json& message)>& answer = nullptr) {
    int met = 0;
    const double end = Now() + seconds;
    while (met < count && Now() < end) {
      epoll_event events[256];
      const int ready = epoll_wait(watched_, events, 256, 20);
      // It stops at `count`: what it would read after that may be messages of the next kind, and it would drop them.
      for (int i = 0; i < ready && met < count; ++i) {
        const auto rank = static_cast<size_t>(events[i].data.u32);
        const bool open = sockets_[rank].Receive();
        while (const auto line = sockets_[rank].NextLine()) {
          const json message = json::parse(*line);
          if (message.at("kind") != kind) continue;
          ++met;
          if (answer) answer(static_cast<int>(rank), message);
        }
        if (!open) sockets_[rank].Close();
      }
    }
    return met;
  }

 private:
  void Take(int rank, LineSocket socket) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<uint32_t>(rank);
    epoll_ctl(watched_, EPOLL_CTL_ADD, socket.descriptor(), &event);
    sockets_[static_cast<size_t>(rank)] = std::move(socket);
  }

  int port_;
  int watched_ = epoll_create1(EPOLL_CLOEXEC);
  std::vector<LineSocket> sockets_;
};

// A configuration with about as many keys as a training has flags.
json ConfigOfARun() {
  json config;
  for (int i = 0; i < 120; ++i)
    config["a_flag_of_this_run_" + std::to_string(i)] = "its value, number " + std::to_string(i);
  return config;
}

// Seconds of the server's processor.
struct Figures {
  double join = 0, start = 0, heartbeats = 0, stop = 0;
};

constexpr double kPatience = 60;

// Measures a run: all ranks join and start, send heartbeats for two seconds, agree on a stop, and one rank dies.
void Measure(int ranks, Figures* figures) {
  ServerProcess server(ranks);
  PlayedRanks played(server, ranks);
  double before = server.processor_seconds();
  const auto lap = [&] { return server.processor_seconds() - std::exchange(before, server.processor_seconds()); };
  std::vector<json> hellos;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank > 0) {
      ASSERT_NO_FATAL_FAILURE(played.Connect(rank));
    }
    played.Send(rank, hellos.emplace_back(MakeHello(rank, ranks)));
  }
  std::vector<std::string> challenges(hellos.size());
  ASSERT_EQ(
      played.Await("challenge", ranks, kPatience,
                   [&](int rank, const json& message) { challenges[static_cast<size_t>(rank)] = message.at("nonce"); }),
      ranks);
  played.SendAll([&](int rank) {
    const auto i = static_cast<size_t>(rank);
    return json{{"kind", "proof"}, {"proof", ProofOfClient("token", challenges[i], hellos[i])}};
  });
  ASSERT_EQ(played.Await("welcome", ranks, kPatience), ranks);
  figures->join = lap();

  const json config = ConfigOfARun();
  played.SendAll([&](int) { return json{{"kind", "config"}, {"config", config}}; });
  ASSERT_EQ(played.Await("go", ranks, kPatience), ranks);
  figures->start = lap();

  Position position;
  const double training = Now();
  while (Now() - training < 2) {
    const double tick = Now();
    ++position.point;
    ++position.step;
    played.SendAll([&](int) { return json{{"kind", "at"}, {"at", ToJson(position)}}; });
    const double left = std::chrono::duration<double>(kTick).count() - (Now() - tick);
    ASSERT_EQ(played.Await("end", 1, std::max(left, 0.0)), 0);
  }
  figures->heartbeats = lap();

  played.Send(ranks / 2, {{"kind", "stop"}});
  ASSERT_EQ(played.Await("propose", ranks, kPatience,
                         [&](int rank, const json& proposal) {
                           played.Send(rank, {{"kind", "accept"}, {"point", proposal.at("point")}});
                         }),
            ranks);
  ASSERT_EQ(played.Await("commit", ranks, kPatience), ranks);
  figures->stop = lap();

  played.Kill(ranks - 1);
  ASSERT_EQ(played.Await("end", ranks - 1, kPatience), ranks - 1);
}

TEST(ControlScale, GrowsLinearlyTo1024Ranks) {
  constexpr int kFew = 128, kMany = 1024;
  constexpr rlim_t kNeeded = 2 * kMany;
  if (LimitOpenFiles(kNeeded) < kNeeded)
    GTEST_SKIP() << "needs " << kNeeded << " open files: run it after ulimit -Hn " << kNeeded;
  Figures few, many;
  ASSERT_NO_FATAL_FAILURE(Measure(kFew, &few));
  ASSERT_NO_FATAL_FAILURE(Measure(kMany, &many));
  // With eight times the ranks, linear growth is 8 and quadratic growth 64. Processor time is hardly longer on a busy
  // machine, but counted in hundredths of a second. Something for each pair of the 1,024 ranks takes a second or more.
  constexpr double kMost = 20;
  constexpr double kNoise = 0.3;  // seconds
  EXPECT_LT(many.join, kMost * few.join + kNoise);
  EXPECT_LT(many.start, kMost * few.start + kNoise);
  EXPECT_LT(many.heartbeats, kMost * few.heartbeats + kNoise);
  EXPECT_LT(many.stop, kMost * few.stop + kNoise);
}

}  // namespace
}  // namespace dtrain::control
