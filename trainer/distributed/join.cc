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
constexpr auto kRetryAfterRefusal = std::chrono::milliseconds(500);
constexpr auto kSlice = std::chrono::milliseconds(200);
constexpr auto kStopPatience = std::chrono::seconds(1);
constexpr auto kConnectPatience = std::chrono::seconds(3);
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

// Until when to try. A stop that is asked for on the way does not end it at once: rank 0 is to hear of it if it can be
// found soon, or the other ranks would wait for this one.
class Patience {
 public:
  explicit Patience(const JoinOptions& options)
      : options_(options), deadline_(Clock::now() + Milliseconds(options.timeout_seconds)) {}

  Clock::time_point Deadline() {
    if (!stopped_ && options_.stop_requested()) {
      stopped_ = true;
      deadline_ = std::min(deadline_, Clock::now() + kStopPatience);
    }
    return deadline_;
  }
  // Where the reason is a stop, throws Preempted; else returns whether the time is over.
  bool IsOver() {
    const bool over = Clock::now() >= Deadline();
    if (over && stopped_) throw Preempted("stopped before the training began");
    return over;
  }

 private:
  const JoinOptions& options_;
  Clock::time_point deadline_;
  bool stopped_ = false;
};

// How an attempt ended.
struct Attempt {
  Joined joined;       // its socket is open where rank 0 said welcome
  std::string reason;  // why it is not
  bool refused = false;
};

// Reads the answer to a hello into `attempt`, whose socket is left open only by a welcome.
void ReadAnswer(Attempt& attempt, const JoinOptions& options, Patience& patience) {
  LineSocket& socket = attempt.joined.socket;
  const std::string name = Name(attempt.joined.endpoint);
  std::optional<std::string> line;
  while (!line && socket.is_open()) {
    line = WaitForLine(socket, std::min(patience.Deadline(), Clock::now() + kSlice));
    if (!line && socket.is_open() && patience.IsOver()) {
      throw PeerLostError(name + " accepts connections, but does not answer as rank 0 does",
                          "does another program listen there? choose another --master_port");
    }
  }
  if (!line) return;
  const json answer = json::parse(*line, nullptr, /*allow_exceptions=*/false);
  const std::string kind = answer.is_object() ? answer.value("kind", "") : "";
  if (kind == "welcome") {
    attempt.joined.store_port = answer.value("store_port", 0);
    return;
  }
  if (kind != "refused") {
    throw UsageError("what answers at " + name + " is no rank 0 of dtrain: '" + Shown(*line) + "'",
                     "another program listens there: choose another --master_port");
  }
  attempt.refused = true;
  attempt.reason =
      "rank " + std::to_string(options.rank) + " was refused by rank 0 at " + name + ": " + answer.value("message", "");
  socket.Close();
}

void Greet(Attempt& attempt, const JoinOptions& options, Patience& patience) {
  attempt.reason = "no rank 0 answers at " + Name(attempt.joined.endpoint) + ": it closed the connection";
  attempt.joined.socket.Send(Hello(attempt.joined.endpoint.token, options.rank, options.world_size));
  ReadAnswer(attempt, options, patience);
}

Attempt TryToJoin(const JoinOptions& options, Patience& patience) {
  Attempt attempt;
  const auto endpoint = options.locate();
  if (!endpoint) {
    attempt.reason = "rank 0 has not posted its address on the launcher's store";
    return attempt;
  }
  attempt.joined.endpoint = *endpoint;
  std::string why;
  attempt.joined.socket =
      TryConnect(endpoint->host, endpoint->port, std::min(patience.Deadline(), Clock::now() + kConnectPatience), &why);
  attempt.reason = "no rank 0 answers at " + Name(*endpoint) + ": " + why;
  if (attempt.joined.socket.is_open()) Greet(attempt, options, patience);
  return attempt;
}

[[noreturn]] void ThrowRefused(const Attempt& attempt) {
  throw UsageError(attempt.reason, "give every process its own --rank, and every run its own --master_port");
}

}  // namespace

Joined Join(const JoinOptions& options) {
  Patience patience(options);
  auto next_announcement = Clock::now() + kAnnouncementInterval;
  while (true) {
    Attempt attempt = TryToJoin(options, patience);
    if (attempt.joined.socket.is_open()) return std::move(attempt.joined);
    const bool over = patience.IsOver();
    if (attempt.refused && (!options.location_may_be_old || over)) ThrowRefused(attempt);
    if (over) {
      throw PeerLostError(attempt.reason,
                          "is rank 0 running, and is its port reachable from this machine? (--init_timeout)");
    }
    if (const auto now = Clock::now(); now >= next_announcement) {
      next_announcement = now + kAnnouncementInterval;
      options.warn("still waiting: " + attempt.reason);
    }
    std::this_thread::sleep_for(attempt.refused ? kRetryAfterRefusal : kRetry);
  }
}

Joined JoinThrough(LineSocket connection, const Endpoint& endpoint, const JoinOptions& options) {
  Attempt attempt;
  attempt.joined.socket = std::move(connection);
  attempt.joined.endpoint = endpoint;
  Patience patience(options);
  Greet(attempt, options, patience);
  if (attempt.refused) ThrowRefused(attempt);
  if (!attempt.joined.socket.is_open()) throw PeerLostError(attempt.reason);
  return std::move(attempt.joined);
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
