// All work is done on one thread, the server's, which handles each message of a rank and watches the time in between.
#include "trainer/control/control_server.h"

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "data/error.h"
#include "data/machine/thread.h"
#include "data/shown.h"
#include "trainer/control/control_connections.h"
#include "trainer/control/control_message.h"
#include "trainer/control/gathering.h"
#include "trainer/control/stall_watch.h"
#include "trainer/launch/run_token.h"
#include "trainer/report/log.h"

namespace dtrain::control {
namespace {

using nlohmann::json;
using std::chrono::duration;

constexpr auto kGatheringPatience = std::chrono::seconds(1);    // for ranks to come and hear of a stop before the start
constexpr auto kLostPatience = std::chrono::milliseconds(300);  // for the cause of a lost connection to become known
constexpr auto kSilence = std::chrono::seconds(2);  // before the start: a rank that is silent for so long is missing
constexpr double kStopLeadSeconds = 0.2;            // how far ahead of the furthest rank a stop is proposed
constexpr int kToldRefusals = 100;                  // refusals that are logged, so that strangers cannot fill the log
constexpr const char* kSameCommand = "start all ranks with the same command";
constexpr const char* kMissingHint =
    "were all ranks started, and what do the missing ones say? can they reach rank 0's address? --init_timeout says "
    "how long to wait";

}  // namespace

class ControlServer::Loop {
 public:
  explicit Loop(ControlServerOptions options)
      : options_(std::move(options)),
        peers_(options_.listening_descriptor, options_.own_descriptor, options_.world_size, options_.warn),
        gathering_(options_.world_size),
        started_(Clock::now()),
        next_announcement_(started_ + kAnnouncementInterval) {
    thread_ = data::Thread([this](const std::stop_token& stop) { Run(stop); });
  }

 private:
  void Run(const std::stop_token& stop);
  void Serve(const std::stop_token& stop);
  void Handle(Peer& peer, const json& message);
  void HandleClient(Peer& peer, const json& message);
  void HandleDeath(Peer& launcher, const json& message);
  void Admit(Peer& peer);
  void Refuse(Peer& peer, const std::string& message);
  void HandleConfig(const Peer& peer, const json& config);
  void Start();
  void CountBadRecord(const json& message);
  void HandleStop(Peer& peer, const std::string& kind, const json& message);
  void Tick(Clock::time_point now);
  void AnnounceMissing(Clock::time_point now);
  void HandleEnd(const Peer& peer);
  void End(ExitCode code, const std::string& message, int rank, const std::string& hint = "",
           std::optional<int> cause = {});
  int64_t Furthest() const;
  int64_t StopMargin() const;

  const ControlServerOptions options_;
  ControlConnections peers_;
  std::set<int> came_;  // the ranks of this attempt that have come, also those that are gone again
  Gathering gathering_;
  StallWatch stalls_{0, 0, {}};  // used once going_; see Start
  StopAgreement stop_{0};        // likewise
  BadRecordCount bad_records_;
  const Clock::time_point started_;
  Clock::time_point next_announcement_, last_tick_, go_time_;
  bool going_ = false, ended_ = false;
  int left_ = 0, refusals_ = 0;
  std::optional<Clock::time_point> stop_before_start_;             // when a stop was requested before the start
  json end_;                                                       // the message "end"; null before
  std::optional<std::pair<Clock::time_point, std::string>> lost_;  // the first report of a lost peer, and its time
  data::Thread thread_;                                            // started when everything above is ready
};

ControlServer::ControlServer(ControlServerOptions options) : loop_(std::make_unique<Loop>(std::move(options))) {}
ControlServer::~ControlServer() = default;

// Any error here ends the run on all ranks, including rank 0, which gets the message over its own connection.
void ControlServer::Loop::Run(const std::stop_token& stop) {
  try {
    Serve(stop);
  } catch (const std::bad_alloc&) {
    End(ExitCode::kOutOfMemory, "rank 0 has no memory left to serve the other ranks", -1);
  } catch (const std::exception& error) {
    End(ExitCode::kInternal, std::string("rank 0 cannot serve the other ranks any more: ") + error.what(), -1);
  }
}

void ControlServer::Loop::Serve(const std::stop_token& stop) {
  last_tick_ = Clock::now();
  while (!stop.stop_requested()) {
    peers_.Serve(
        kTick / 2, [this](Peer& peer, const json& message) { Handle(peer, message); },
        [this](const Peer& peer) { HandleEnd(peer); });
    if (ended_) continue;
    const auto now = Clock::now();
    if (now - last_tick_ >= kTick) Tick(now);
  }
}

void ControlServer::Loop::Handle(Peer& peer, const json& message) {
  const std::string kind = message.at("kind");
  if (peer.is_stranger()) return HandleClient(peer, message);
  if (ended_) return;
  if (peer.is_launcher) {
    HandleDeath(peer, message);
  } else if (kind == "at") {
    peer.position = PositionFromJson(message.at("at"));
    if (going_) stalls_.Heard(peer.rank, peer.position, Clock::now());
  } else if (kind == "config") {
    HandleConfig(peer, message.at("config"));
  } else if (kind == "failed") {
    const int code = message.at("code");
    End(ExitCode::kPeerLost,
        peer.name + " failed (exit code " + std::to_string(code) + "): " + message.at("message").get<std::string>(),
        peer.rank, /*hint=*/"", code);
  } else if (kind == "lost") {
    if (!lost_) lost_.emplace(Clock::now(), peer.name + " lost a peer: " + message.at("message").get<std::string>());
  } else if (kind == "bad_record") {
    CountBadRecord(message);
  } else if (kind == "leave") {
    if (!going_ || std::exchange(peer.left, true)) return;
    stalls_.Left(peer.rank);
    if (++left_ == options_.world_size) peers_.Broadcast({{"kind", "bye"}});
  } else {
    HandleStop(peer, kind, message);
  }
}

void ControlServer::Loop::HandleClient(Peer& peer, const json& message) {
  if (message.at("kind") == "hello") {
    if (message.at("magic") != kControlMagic || !peer.hello.is_null()) return peer.socket.Close();
    peer.hello = message;
    if (message.at("version") != kControlVersion || !message.contains("nonce")) {
      return Refuse(peer, "it runs another version of dtrain");
    }
    peer.nonce = launch::RandomToken();
    return peer.Send({{"kind", "challenge"}, {"nonce", peer.nonce}});
  }
  if (peer.nonce.empty()) return peer.socket.Close();
  const std::string proof = ProofOfClient(options_.token, peer.nonce, peer.hello);
  if (launch::SameProof(message.at("proof").get_ref<const std::string&>(), proof)) return Admit(peer);
  if (launch::SameProof(message.at("proof").get_ref<const std::string&>(), ProofOfClient("", peer.nonce, peer.hello))) {
    return Refuse(peer, "it has no run token, which the run at this address has: give all ranks the same " +
                            std::string(launch::kTokenVariable) + ", unless it belongs to another run");
  }
  Refuse(peer, options_.token.empty()
                   ? "it has a run token, which the run at this address has not: give all ranks the same " +
                         std::string(launch::kTokenVariable)
                   : "its run token is not that of the run at this address: it belongs to another run");
}

// A rank that has come is known to live as long as its connection is open. So if one of that number has died, the
// launcher is of another run, or has started the rank once more, and the rank was refused.
void ControlServer::Loop::HandleDeath(Peer& launcher, const json& message) {
  const int rank = message.at("rank");
  launcher.Send({{"kind", "noted"}});
  if (rank >= options_.world_size || peers_.Find(rank) != nullptr) return;
  End(ExitCode::kPeerLost,
      "rank " + std::to_string(rank) + " has died: " + Shown(message.at("reason").get_ref<const std::string&>()) +
          " (its launcher: " + PlaceOf(launcher.hello) + ")",
      rank);
}

// The peer has proved that it knows the token, so its hello is trusted.
void ControlServer::Loop::Admit(Peer& peer) {
  const int rank = peer.hello.at("rank"), world_size = peer.hello.at("world_size");
  if (rank >= 0 && (world_size != options_.world_size || rank >= world_size)) {
    const std::string what = NameOf(peer.hello) + " has a world size of " + std::to_string(world_size) +
                             ", but rank 0 has " + std::to_string(options_.world_size);
    Refuse(peer, what);
    if (!going_) End(ExitCode::kUsage, what, -1, kSameCommand);
    return;
  }
  if (const Peer* other = peers_.Find(rank)) {
    return Refuse(peer, "rank " + std::to_string(rank) + " joined twice: " + other->name + " came first");
  }
  if (rank >= 0 && !came_.insert(rank).second) return peer.socket.Close();  // it is of the next attempt and tries again
  if (rank < 0) {
    peer.is_launcher = true;
  } else {
    peers_.Admit(peer, rank);
    peer.name = NameOf(peer.hello);
  }
  peer.Send({{"kind", "welcome"},
             {"store_port", options_.store_port},
             {"proof", ProofOfServer(options_.token, peer.nonce, peer.hello)}});
  if (ended_ && rank >= 0) peer.Send(end_);  // it was not connected when the message was sent to all
}

void ControlServer::Loop::Refuse(Peer& peer, const std::string& message) {
  if (++refusals_ <= kToldRefusals) options_.warn("refused: " + NameOf(peer.hello) + ": " + message);
  peer.Send({{"kind", "refused"}, {"message", message}});
  peer.socket.Close();
}

// Compares each configuration with rank 0's as soon as both have arrived.
void ControlServer::Loop::HandleConfig(const Peer& peer, const json& config) {
  if (going_) return;
  if (const auto found = gathering_.Ready(peer.rank, config, PlaceOf(peer.hello))) {
    return End(ExitCode::kUsage, found->message, -1, found->hint);
  }
  if (gathering_.all_are_ready() && !stop_before_start_) Start();  // after a stop, the next Tick ends the run
}

void ControlServer::Loop::Start() {
  going_ = true;
  go_time_ = Clock::now();
  stalls_ = StallWatch(options_.world_size, options_.comm_timeout_seconds, go_time_);
  for (const Peer& peer : peers_.all()) {
    if (peer.rank >= 0) stalls_.SetPlace(peer.rank, PlaceOf(peer.hello));
  }
  stop_ = StopAgreement(options_.world_size);
  peers_.Broadcast({{"kind", "go"}});
}

void ControlServer::Loop::CountBadRecord(const json& message) {
  try {
    const int64_t count = bad_records_.Add(message);
    peers_.Broadcast({{"kind", "bad_records"}, {"split", message.at("split")}, {"count", count}});
  } catch (const DataError& over_budget) {
    End(over_budget.code(), over_budget.what(), -1, over_budget.hint());
  }
}

void ControlServer::Loop::HandleStop(Peer& peer, const std::string& kind, const json& message) {
  const auto propose = [this](int64_t point) { peers_.Broadcast({{"kind", "propose"}, {"point", point}}); };
  if (!going_) {
    if (kind == "stop" && !stop_before_start_) stop_before_start_ = Clock::now();
  } else if (kind == "stop") {
    if (stop_.under_way()) return;
    propose(stop_.Propose(Furthest(), StopMargin()));
  } else if (kind == "accept") {
    if (stop_.Accept(peer.rank, message.at("point"))) {
      peers_.Broadcast({{"kind", "commit"}, {"point", message.at("point")}});
    }
  } else if (kind == "reject") {
    if (const auto next = stop_.Reject(message.at("point"), message.at("passed"), StopMargin())) propose(*next);
  }
}

// Returns the last point that a rank is known to have passed.
int64_t ControlServer::Loop::Furthest() const {
  int64_t furthest = 0;
  for (const Peer& peer : peers_.all()) furthest = std::max(furthest, peer.position.point);
  return furthest;
}

// Returns the number of points that the furthest rank passes while a proposal travels to all ranks, plus 1.
int64_t ControlServer::Loop::StopMargin() const {
  const double seconds = duration<double>(Clock::now() - go_time_).count();
  return 1 + static_cast<int64_t>(static_cast<double>(Furthest()) / std::max(seconds, 1e-3) * kStopLeadSeconds);
}

void ControlServer::Loop::Tick(Clock::time_point now) {
  if (now - last_tick_ >= kOwnGap) {
    const auto gap = now - last_tick_;
    stalls_.Skip(gap);
    for (Peer& peer : peers_.all()) peer.heard += gap;
    if (lost_) lost_->first += gap;
    options_.warn("rank 0 holds up the others: its own process stood still for " +
                  report::Format("%.1f s", duration<double>(gap).count()));
  }
  last_tick_ = now;
  if (lost_ && now - lost_->first >= kLostPatience) return End(ExitCode::kPeerLost, lost_->second, -1);
  if (stop_before_start_ && !going_ && (peers_.AllAreHere() || now - *stop_before_start_ >= kGatheringPatience)) {
    return End(ExitCode::kPreempted, "stopped before the training began", -1);
  }
  if (!going_) return AnnounceMissing(now);
  if (const Peer* first = peers_.Find(0)) peers_.Broadcast({{"kind", "tick"}, {"at", ToJson(first->position)}}, true);
  const StallWatch::Finding finding = stalls_.Check(now);
  for (const std::string& warning : finding.warnings) options_.warn(warning);
  if (!finding.stall.empty()) End(ExitCode::kPeerLost, finding.stall, -1);
}

void ControlServer::Loop::AnnounceMissing(Clock::time_point now) {
  peers_.Broadcast({{"kind", "tick"}, {"at", ToJson(Position())}}, true);
  const bool too_late = now - started_ >= Milliseconds(options_.init_timeout_seconds);
  if (!too_late && now < next_announcement_) return;
  next_announcement_ = now + kAnnouncementInterval;
  const std::string missing = gathering_.Missing([&](int rank) {
    const Peer* peer = peers_.Find(rank);
    if (peer == nullptr) return Gathering::Contact::kNone;
    return now - peer->heard < kSilence ? Gathering::Contact::kAnswers : Gathering::Contact::kSilent;
  });
  if (too_late) return End(ExitCode::kPeerLost, missing + "; gave up after --init_timeout", -1, kMissingHint);
  options_.warn(missing);
}

void ControlServer::Loop::HandleEnd(const Peer& peer) {
  if (peer.left || ended_) return;
  const std::string how = peer.fault.empty()
                              ? " is gone: its process ended without a message, perhaps killed"
                              : " has sent an invalid message (" + peer.fault + "), so its connection was closed";
  End(ExitCode::kPeerLost, peer.name + how + " (" + Describe(peer.position) + ")", peer.rank);
}

void ControlServer::Loop::End(ExitCode code, const std::string& message, int rank, const std::string& hint,
                              std::optional<int> cause) {
  if (ended_) return;
  ended_ = true;
  end_ = {{"kind", "end"}, {"code", static_cast<int>(code)}, {"message", message}, {"hint", hint}, {"rank", rank}};
  if (cause) end_["cause"] = *cause;
  peers_.Broadcast(end_);
}

}  // namespace dtrain::control
