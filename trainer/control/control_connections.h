// The control server's side of its connections: one poll() for all. A connection is a stranger's until it has proved
// that it knows the run's token, and a stranger gets little: some kilobytes, some seconds, and no influence on the run.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>

#include "trainer/control/control_message.h"
#include "trainer/control/line_socket.h"
#include "trainer/control/position.h"

namespace dtrain::distributed {

struct Peer {
  LineSocket socket;
  Clock::time_point since, heard;
  int rank = -1;  // a stranger's or a launcher's
  bool is_launcher = false;
  bool left = false;
  nlohmann::json hello;  // a stranger's, who has yet to prove that it is true
  std::string nonce;     // what it was asked then
  std::optional<nlohmann::json> config;
  std::string name;   // "rank 1 (host h, process 123)"
  std::string fault;  // why a rank's connection was closed here: not empty where it has sent what no rank sends
  Position position;

  bool is_stranger() const { return rank < 0 && !is_launcher; }
  Speaker speaker() const { return rank >= 0 ? Speaker::kRank : is_launcher ? Speaker::kLauncher : Speaker::kNewcomer; }
  void Send(const nlohmann::json& message);
};

class ControlConnections {
 public:
  // Takes both descriptors over; `own_descriptor` and `warn` as ControlServerOptions has them. Throws UsageError where
  // this process may not have as many open files as there are ranks.
  ControlConnections(int listening_descriptor, int own_descriptor, int world_size,
                     std::function<void(const std::string&)> warn);

  // Waits for up to `patience`, then calls `handle` with each message that has come. What is none of the peer's ends
  // the connection. Last, `gone` is called for each rank whose connection is closed.
  void Serve(std::chrono::milliseconds patience, const std::function<void(Peer&, const nlohmann::json&)>& handle,
             const std::function<void(const Peer&)>& gone);

  // To all ranks; if `only_if_nothing_waits`, then without those that have not yet taken what they were sent before.
  void Broadcast(const nlohmann::json& message, bool only_if_nothing_waits = false);

  // From now on this peer is `rank`, which nobody else is.
  void Admit(Peer& peer, int rank);
  // Null where it is not here.
  Peer* Find(int rank);
  bool AllAreHere() const { return ranks_.size() == static_cast<size_t>(world_size_); }
  std::list<Peer>& all() { return peers_; }
  const std::list<Peer>& all() const { return peers_; }

 private:
  void Accept();
  void RestFromAccepting(int error);
  void Add(int descriptor);
  void DropOldestStranger();
  void Read(Peer& peer, const std::function<void(Peer&, const nlohmann::json&)>& handle);
  void RemoveClosed(const std::function<void(const Peer&)>& gone);

  int world_size_;
  const std::function<void(const std::string&)> warn_;
  LineSocket listener_;
  Clock::time_point accepts_after_;  // where no descriptor was left: not at once again
  bool told_of_descriptors_ = false;
  std::list<Peer> peers_;  // by age
  std::unordered_map<int, Peer*> ranks_;
};

}  // namespace dtrain::distributed
