// How a rank finds rank 0's control server and is admitted, or learns why it is not.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trainer/control/line_socket.h"

namespace dtrain::control {

struct Endpoint {
  std::string host;
  int port = 0;
  std::string token;  // the run's token; both sides prove that they know it
};

struct JoinOptions {
  // Called before every attempt, because under torchrun rank 0 posts its address on a store, and it may change. Returns
  // nothing if the address is not posted yet.
  std::function<std::optional<Endpoint>()> locate;
  // Whether the address may be that of rank 0 of an earlier attempt, which may still listen. If so, Join does not give
  // up when it is refused, but tries again until the deadline.
  bool location_may_be_old = false;
  int rank = 0;
  int world_size = 1;
  double timeout_seconds = 300;
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

struct Joined {
  LineSocket socket;   // the connection to the control server, which has admitted this rank
  Endpoint endpoint;   // where the server was found
  int store_port = 0;  // the port of c10d's store on rank 0's machine
};

// Tries until the deadline, because ranks start in any order. Throws PeerLostError if rank 0 does not answer in time,
// UsageError if the rank is refused or another program answers, and Preempted if a stop was requested and rank 0 was
// not reached within a second of that.
Joined Join(const JoinOptions& options);

// Does the same over `connection`, which is connected to the server at `endpoint` already. Used by rank 0 itself, whose
// connection needs no network. Throws PeerLostError if the connection is closed.
Joined JoinThrough(LineSocket connection, const Endpoint& endpoint, const JoinOptions& options);

// Used by a launcher whose process of rank `rank` has died: tells the control server, which then ends the run on all
// ranks if that rank has not come yet; otherwise its closed connection tells. Needs neither torch nor a thread. Returns
// false if the server could not be told before `deadline`, perhaps because it is gone itself.
bool PostDeath(const Endpoint& endpoint, int rank, const std::string& reason, Clock::time_point deadline);

}  // namespace dtrain::control
