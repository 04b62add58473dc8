#include "trainer/control/join.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/shown.h"
#include "trainer/control/control_message.h"
#include "trainer/control/control_server.h"
#include "trainer/errors.h"
#include "trainer/launch/run_token.h"

namespace dtrain::control {
namespace {

using nlohmann::json;

constexpr auto kRetry = std::chrono::milliseconds(20);
constexpr auto kRetryAfterRefusal = std::chrono::milliseconds(500);
constexpr auto kSlice = std::chrono::milliseconds(200);
constexpr auto kStopPatience = std::chrono::seconds(1);
constexpr auto kConnectPatience = std::chrono::seconds(3);
constexpr size_t kShownBytes = 60;

std::string Name(const Endpoint& endpoint) { return Shown(endpoint.host) + ":" + std::to_string(endpoint.port); }

// The deadline for joining. When a stop is requested, it moves to at most kStopPatience from then: the rank still tries
// to reach rank 0 and tell it of the stop, because otherwise the other ranks would wait for this one.
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
  // Returns whether the deadline has passed; throws Preempted if that is because of a stop.
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

struct Attempt {
  Joined joined;       // its socket is open if rank 0 has welcomed this rank
  std::string reason;  // why it is not open
  bool refused = false;
};

// Returns the server's next message, which must be `expected` or "refused"; empty if the server closes the connection.
// Throws UsageError for anything else, PeerLostError or Preempted if nothing comes in time.
std::optional<json> ReadAnswer(const Attempt& attempt, LineSocket& socket, const std::string& expected,
                               Patience& patience) {
  const std::string name = Name(attempt.joined.endpoint);
  std::optional<std::string> line;
  while (!line && socket.is_open()) {
    line = WaitForLine(socket, std::min(patience.Deadline(), Clock::now() + kSlice));
    if (!line && socket.is_open() && patience.IsOver()) {
      throw PeerLostError(name + " accepts connections, but does not answer as rank 0 does",
                          "does another program listen there? choose another --master_port");
    }
  }
  if (!line) return std::nullopt;
  try {
    json answer = ParseControlLine(*line, Speaker::kGreeting);
    if (answer.at("kind") == expected || answer.at("kind") == "refused") return answer;
  } catch (const BadControlLine&) {  // the answer of another program
  }
  throw UsageError(
      "the program at " + name + " is not rank 0 of dtrain; it answered '" + Shown(*line, kShownBytes) + "'",
      "another program listens there: choose another --master_port");
}

// Performs the handshake. The socket stays open only if a server that knows the token has admitted this rank.
void Greet(Attempt& attempt, const JoinOptions& options, Patience& patience) {
  LineSocket& socket = attempt.joined.socket;
  const std::string& token = attempt.joined.endpoint.token;
  const std::string name = Name(attempt.joined.endpoint);
  attempt.reason = "rank 0 does not answer at " + name + ": it closed the connection";
  socket.set_max_line(kLongestToStrangers);
  const json hello = MakeHello(options.rank, options.world_size);
  socket.Send(ControlLine(hello));
  std::optional<json> answer = ReadAnswer(attempt, socket, "challenge", patience);
  std::string challenge;
  if (answer && answer->at("kind") == "challenge") {
    challenge = answer->at("nonce");
    socket.Send(ControlLine({{"kind", "proof"}, {"proof", ProofOfClient(token, challenge, hello)}}));
    answer = ReadAnswer(attempt, socket, "welcome", patience);
  }
  if (!answer) return;
  if (answer->at("kind") == "refused") {
    attempt.refused = true;
    attempt.reason = "rank " + std::to_string(options.rank) + " was refused by rank 0 at " + name + ": " +
                     Shown(answer->at("message").get_ref<const std::string&>());
    return socket.Close();
  }
  const std::string proof = ProofOfServer(token, challenge, hello);
  if (!launch::SameProof(answer->at("proof").get_ref<const std::string&>(), proof)) {
    attempt.refused = true;
    attempt.reason = "the program at " + name + " does not know this run's token: it belongs to another run";
    return socket.Close();
  }
  attempt.joined.store_port = answer->at("store_port");
  socket.set_max_line(LineSocket::kMaxLine);
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
  attempt.reason = "rank 0 does not answer at " + Name(*endpoint) + ": " + why;
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
      options.warn("rank " + std::to_string(options.rank) + " is still waiting: " + attempt.reason);
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
  Attempt attempt;
  attempt.joined.endpoint = endpoint;
  LineSocket& socket = attempt.joined.socket = TryConnect(endpoint.host, endpoint.port, deadline, &unused);
  if (!socket.is_open()) return false;
  JoinOptions as_launcher{.locate = {}, .rank = -1, .world_size = 0};
  as_launcher.timeout_seconds = std::chrono::duration<double>(deadline - Clock::now()).count();
  Patience patience(as_launcher);
  try {
    Greet(attempt, as_launcher, patience);
    if (!socket.is_open()) return false;
    socket.Send(ControlLine({{"kind", "death"}, {"rank", rank}, {"reason", reason}}));
    const auto line = WaitForLine(socket, deadline);
    return line && ParseControlLine(*line, Speaker::kServer).at("kind") == "noted";
  } catch (const Error&) {
    return false;
  } catch (const BadControlLine&) {
    return false;
  }
}

}  // namespace dtrain::control
