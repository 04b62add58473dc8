#include "trainer/distributed/join.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "trainer/distributed/control_server.h"
#include "trainer/errors.h"

namespace dtrain::distributed {
namespace {

using nlohmann::json;

constexpr auto kRetry = std::chrono::milliseconds(20);
constexpr auto kSlice = std::chrono::milliseconds(200);
constexpr auto kConnectPatience = std::chrono::seconds(5);
constexpr auto kAnnouncementInterval = std::chrono::seconds(10);
constexpr size_t kShownBytes = 60;

std::string Hello(const std::string& token, int rank, int world_size) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return json{{"kind", "hello"}, {"magic", kControlMagic}, {"version", kControlVersion},
              {"token", token},  {"rank", rank},           {"world_size", world_size},
              {"host", host},    {"pid", getpid()}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string Name(const Endpoint& endpoint) { return endpoint.host + ":" + std::to_string(endpoint.port); }

// What came, for a message: printable, and not too much of it.
std::string Shown(std::string line) {
  line.resize(std::min(line.size(), kShownBytes));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

void ThrowIfStopped(const JoinOptions& options) {
  if (options.stop_requested()) throw Preempted("stopped before the training began");
}

// Reads the answer to a hello. False: the connection was closed, as a server does that is just ending.
bool IsWelcome(LineSocket& socket, const Endpoint& endpoint, const JoinOptions& options, Clock::time_point deadline,
               int* store_port) {
  std::optional<std::string> line;
  while (!line && socket.is_open()) {
    ThrowIfStopped(options);
    line = WaitForLine(socket, std::min(deadline, Clock::now() + kSlice));
    if (!line && socket.is_open() && Clock::now() >= deadline) {
      throw PeerLostError(Name(endpoint) + " accepts connections, but does not answer as rank 0 does",
                          "does another program listen there? choose another --master_port");
    }
  }
  if (!line) return false;
  const json answer = json::parse(*line, nullptr, /*allow_exceptions=*/false);
  const std::string kind = answer.is_object() ? answer.value("kind", "") : "";
  if (kind == "refused") {
    throw UsageError("rank " + std::to_string(options.rank) + " was refused by rank 0 at " + Name(endpoint) + ": " +
                         answer.value("message", ""),
                     "give every process its own --rank, and every run its own --master_port");
  }
  if (kind != "welcome") {
    throw UsageError("what answers at " + Name(endpoint) + " is no rank 0 of dtrain: '" + Shown(*line) + "'",
                     "another program listens there: choose another --master_port");
  }
  *store_port = answer.value("store_port", 0);
  return true;
}

}  // namespace

Joined Join(const JoinOptions& options) {
  const auto start = Clock::now(), deadline = start + Milliseconds(options.timeout_seconds);
  auto next_announcement = start + kAnnouncementInterval;
  while (true) {
    ThrowIfStopped(options);
    Joined joined;
    joined.endpoint = options.locate();
    std::string reason = "it closed the connection";
    joined.socket = TryConnect(joined.endpoint.host, joined.endpoint.port,
                               std::min(deadline, Clock::now() + kConnectPatience), &reason);
    if (joined.socket.is_open()) {
      joined.socket.Send(Hello(joined.endpoint.token, options.rank, options.world_size));
      if (IsWelcome(joined.socket, joined.endpoint, options, deadline, &joined.store_port)) return joined;
    }
    const auto now = Clock::now();
    const std::string what = "no rank 0 answers at " + Name(joined.endpoint) + ": " + reason;
    if (now >= deadline) {
      throw PeerLostError(what, "is rank 0 running, and is its port reachable from this machine? (--init_timeout)");
    }
    if (now >= next_announcement) {
      next_announcement = now + kAnnouncementInterval;
      options.warn("still waiting: " + what);
    }
    std::this_thread::sleep_for(kRetry);
  }
}

bool PostDeath(const Endpoint& endpoint, int rank, const std::string& reason, Clock::time_point deadline) {
  std::string unused;
  LineSocket socket = TryConnect(endpoint.host, endpoint.port, deadline, &unused);
  if (!socket.is_open()) return false;
  socket.Send(Hello(endpoint.token, -1, 0));
  socket.Send(
      json{{"kind", "death"}, {"rank", rank}, {"reason", reason}}.dump(-1, ' ', false, json::error_handler_t::replace));
  const auto answer = WaitForLine(socket, deadline);
  return answer && json::parse(*answer, nullptr, false).value("kind", "") == "noted";
}

}  // namespace dtrain::distributed
