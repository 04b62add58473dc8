// The control server's side of its connections: one poll() for all. A connection is a stranger's until its hello was
// accepted, and a stranger gets little: a kilobyte, some seconds, and no influence on the run.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "trainer/distributed/line_socket.h"
#include "trainer/distributed/position.h"

namespace dtrain::distributed {

struct Peer {
  LineSocket socket;
  Clock::time_point since, heard;
  int rank = -1;  // a stranger's or a launcher's
  bool is_launcher = false;
  bool left = false;
  std::optional<nlohmann::json> config;
  std::string name;  // "rank 1 (host h, process 123)"
  Position position;

  bool is_stranger() const { return rank < 0 && !is_launcher; }
  void Send(const nlohmann::json& message);
};

class ControlConnections {
 public:
  // Takes both descriptors over; `own_descriptor` as ControlServerOptions has it. Throws UsageError where this process
  // may not have as many open files as there are ranks.
  ControlConnections(int listening_descriptor, int own_descriptor, int world_size);

  // Waits for up to `patience`, then calls `handle` with each message that has come. What is no JSON, or throws a JSON
  // exception there, ends the connection. Last, `gone` is called for each rank whose connection is closed.
  void Serve(std::chrono::milliseconds patience, const std::function<void(Peer&, const nlohmann::json&)>& handle,
             const std::function<void(const Peer&)>& gone);

  // To all ranks; if `only_if_nothing_waits`, then without those that have not yet taken what they were sent before.
  void Broadcast(const nlohmann::json& message, bool only_if_nothing_waits = false);

  Peer* Find(int rank);
  bool AllAreHere();
  std::list<Peer>& all() { return peers_; }
  const std::list<Peer>& all() const { return peers_; }

 private:
  void Accept();
  void Add(int descriptor);
  void Read(Peer& peer, const std::function<void(Peer&, const nlohmann::json&)>& handle);
  void RemoveClosed(const std::function<void(const Peer&)>& gone);

  int world_size_;
  LineSocket listener_;
  std::list<Peer> peers_;
};

}  // namespace dtrain::distributed
