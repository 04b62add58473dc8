// Uses the store of torchrun's agent as a board on which rank 0 posts its address. The store outlives the ranks: when
// nodes join or leave, torchrun restarts all ranks with the same store. Its restart counters do not tell reliably that
// this has happened, and differ between ranks. So there is a single key, the newest posting counts, and readers read it
// again before each attempt.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <optional>
#include <string>

#include "trainer/control/join.h"

namespace c10d {
class TCPStore;
}

namespace dtrain::distributed {

// How long to wait for a store. A stop ends the wait earlier, with Preempted.
struct StoreWait {
  double timeout_seconds = 300;
  std::function<bool()> stop_requested = [] { return false; };
};

// Returns a client of the store at host:port. Throws PeerLostError if none answers in time, Preempted if asked to stop.
c10::intrusive_ptr<c10d::TCPStore> ConnectToStore(const std::string& host, int port, const StoreWait& wait);

// Parses a text that AgentBoard::Post has written. Throws PeerLostError if it is anything else.
control::Endpoint ParseEndpoint(const std::string& posting);

class AgentBoard {
 public:
  // Connects to the store at host:port; throws what ConnectToStore throws.
  AgentBoard(const std::string& host, int port, StoreWait wait);
  ~AgentBoard();

  void Post(const control::Endpoint& endpoint);
  // Returns empty if nothing was posted yet. Throws PeerLostError if the store is gone or silent, Preempted.
  std::optional<control::Endpoint> Read() const;

 private:
  const std::string name_;
  const StoreWait wait_;
  const c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace dtrain::distributed
