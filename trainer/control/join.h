// How a rank finds rank 0's control server and is let in, or is told why not.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trainer/control/line_socket.h"

namespace dtrain::distributed {

struct Endpoint {
  std::string host;
  int port = 0;
  std::string token;  // of the run: both sides prove that they know it
};

struct JoinOptions {
  // Asked before every attempt: under torchrun the address is posted somewhere, and may change. Nothing: not posted
  // yet.
  std::function<std::optional<Endpoint>()> locate;
  bool location_may_be_old = false;  // of an earlier attempt, whose rank 0 may still be there: its refusal says nothing
  int rank = 0;
  int world_size = 1;
  double timeout_seconds = 300;
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

struct Joined {
  LineSocket socket;
  Endpoint endpoint;
  int store_port = 0;
};

// Tries until the deadline: ranks start in any order. Throws PeerLostError where nobody answers in time, UsageError
// where a refusal comes or something else answers, Preempted when a stop was asked for
// and rank 0 cannot be told of it.
Joined Join(const JoinOptions& options);

// The same through a connection to the server at `endpoint` that there is already: rank 0's own.
Joined JoinThrough(LineSocket connection, const Endpoint& endpoint, const JoinOptions& options);

// For a launcher that has seen `rank` of its own die: tells the control server, which ends the run everywhere at once.
// Needs no torch and no thread. False: it could not be told before `deadline`, perhaps because it is gone itself.
bool PostDeath(const Endpoint& endpoint, int rank, const std::string& reason, Clock::time_point deadline);

}  // namespace dtrain::distributed
