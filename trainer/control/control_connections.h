// The control server's connections, served by one poll() on the server's thread. A peer is a stranger until it has
// proved that it knows the run's token. Strangers get a few kilobytes and seconds, and cannot influence the run.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "trainer/control/control_message.h"
#include "trainer/control/line_socket.h"
#include "trainer/control/stall_watch.h"

namespace dtrain::control {

struct Peer {
  LineSocket socket;
  Clock::time_point since, heard;  // when it connected; when it last sent something
  int rank = -1;                   // -1 for strangers and launchers
  bool is_launcher = false;
  bool left = false;     // it has announced its orderly end
  nlohmann::json hello;  // its claims about itself, unproven as long as it is a stranger; null before
  std::string nonce;     // the challenge it was sent; empty before
  std::string name;      // "rank 1 (host h, process 123)"; empty for strangers and launchers
  std::string fault;     // its invalid message, for which the server closed the connection; else empty
  Position position;

  bool is_stranger() const { return rank < 0 && !is_launcher; }
  Speaker speaker() const { return rank >= 0 ? Speaker::kRank : is_launcher ? Speaker::kLauncher : Speaker::kClient; }
  void Send(const nlohmann::json& message);
};

class ControlConnections {
 public:
  // Takes ownership of both descriptors; `own_descriptor` and `warn` are those of ControlServerOptions. Raises the
  // process's limit of open files as needed; throws UsageError if the hard limit is too low for so many ranks.
  ControlConnections(int listening_descriptor, int own_descriptor, int world_size,
                     std::function<void(const std::string&)> warn);

  // Waits up to `patience` for something to arrive, then calls `handle` with each message. A peer that sends an invalid
  // line is disconnected. Finally calls `gone` for each rank whose connection is closed, and forgets it.
  void Serve(std::chrono::milliseconds patience, const std::function<void(Peer&, const nlohmann::json&)>& handle,
             const std::function<void(const Peer&)>& gone);

  // Sends to all ranks. If `only_if_nothing_waits`, skips ranks to which earlier messages are still unsent.
  void Broadcast(const nlohmann::json& message, bool only_if_nothing_waits = false);

  // Makes this peer, so far a stranger, `rank`. No other peer may have that rank.
  void Admit(Peer& peer, int rank);
  // Returns null if the rank is not connected. The pointer is valid until the next Serve.
  Peer* Find(int rank);
  bool AllAreHere() const { return ranks_.size() == static_cast<size_t>(world_size_); }
  std::list<Peer>& all() { return peers_; }
  const std::list<Peer>& all() const { return peers_; }

 private:
  void Accept();
  void PauseAccepting(int error);
  void Add(int descriptor);
  void DropOldestStranger();
  void Read(Peer& peer, const std::function<void(Peer&, const nlohmann::json&)>& handle);
  void RemoveClosed(const std::function<void(const Peer&)>& gone);

  int world_size_;
  const std::function<void(const std::string&)> warn_;
  LineSocket listener_;
  Clock::time_point accepts_after_;     // no accept() before this time, because the last one found no free descriptor
  bool warned_of_descriptors_ = false;  // the user was warned of that once
  std::list<Peer> peers_;               // oldest connection first
  std::unordered_map<int, Peer*> ranks_;
};

}  // namespace dtrain::control
