// The store of torchrun's agent, as a board on which rank 0 posts its address. The store outlives the ranks: when nodes
// come or go torchrun starts all ranks again on the same one, with counters that tell neither whether this happened nor
// the same to all ranks. So there is one key, the newest posting is the one that counts, and readers look again.
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

// How long to wait for a store, unless a stop is asked for.
struct StoreWait {
  double timeout_seconds = 300;
  std::function<bool()> stop_requested = [] { return false; };
};

// A client of the store at host:port. Throws PeerLostError where none answers in time, Preempted.
c10::intrusive_ptr<c10d::TCPStore> ConnectToStore(const std::string& host, int port, const StoreWait& wait);

// What AgentBoard::Post has written. Throws PeerLostError for anything else.
Endpoint ParseEndpoint(const std::string& posting);

class AgentBoard {
 public:
  // Throws what ConnectToStore throws.
  AgentBoard(const std::string& host, int port, StoreWait wait);
  ~AgentBoard();

  void Post(const Endpoint& endpoint);
  // Nothing where nothing was posted yet. Throws PeerLostError where the store is gone or silent, Preempted.
  std::optional<Endpoint> Read() const;

 private:
  const std::string name_;
  const StoreWait wait_;
  const c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace dtrain::distributed
