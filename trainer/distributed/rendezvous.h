// How the ranks of a run find each other: rank 0 serves a key-value store, the others connect to it, and all shake
// hands before any collective.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>
#include <vector>

#include "trainer/launch/launch.h"

namespace c10d {
class Store;
}

namespace dtrain::distributed {

class Rendezvous {
 public:
  // Connects, or serves on rank 0. `listen_fd` ≥ 0 is a socket that already listens for rank 0's store (the node
  // launcher's). Throws PeerLostError when the store cannot be reached within `timeout_seconds`.
  Rendezvous(const launch::Launch& launch, int listen_fd, double timeout_seconds);
  ~Rendezvous();

  // Waits until all ranks are here, printing who is missing every 10 s. Throws PeerLostError naming the missing ranks
  // at the deadline, UsageError for a rank that is there twice, and (on all ranks) for a configuration that is not rank
  // 0's: `config` is a JSON object, compared key by key.
  void Handshake(const std::string& config);

  // Rank 0's value, on every rank.
  std::string ShareFromFirst(const std::string& key, const std::string& value);

  // The orderly end of a run: rank 0, whose store the others use, leaves last (after 10 s without the others at most).
  void Leave();

  const launch::Launch& launch() const { return launch_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  // The address at which the other ranks can reach this one's sockets.
  const std::string& local_address() const { return local_address_; }

 private:
  std::vector<std::string> KeysOfAll(const std::string& prefix) const;
  void WaitForAll();
  std::string DifferenceToFirst(const std::string& config) const;

  launch::Launch launch_;
  double timeout_seconds_;
  std::string local_address_;
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace dtrain::distributed
