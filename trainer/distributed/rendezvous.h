// How the ranks of a run find each other: through rank 0's control server, which lets in those that belong to the run.
// Behind it c10d's key-value store, for what Gloo and NCCL exchange when they connect.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "trainer/control/control_plane.h"
#include "trainer/distributed/agent_board.h"
#include "trainer/launch/launch.h"

namespace c10d {
class Store;
}

namespace dtrain::distributed {

struct RendezvousOptions {
  launch::Launch launch;
  int listen_fd = -1;  // ≥ 0: a socket that already listens for rank 0 (the node launcher's)
  double init_timeout_seconds = 300;
};

class Rendezvous {
 public:
  // Connects to rank 0, or serves on rank 0, and starts the control plane. Throws what Join throws, and UsageError
  // where rank 0 cannot listen.
  Rendezvous(const RendezvousOptions& options, ControlPlaneOptions control);
  ~Rendezvous();

  // Outlives the rendezvous: the last to be told of a failure.
  const std::shared_ptr<ControlPlane>& control() const { return control_; }

  // Waits for all ranks, and connects to rank 0's store. See ControlPlane::WaitForAll.
  void WaitForAll(const std::string& config) { control_->WaitForAll(config); }

  // Rank 0's value, on every rank. Both throw PeerLostError where somebody who does not know the token has written it.
  std::string ShareFromFirst(const std::string& key, const std::string& value);

  // The value of the rank that came first, on every rank.
  std::string ShareFromEarliest(const std::string& key, const std::string& value);

  const launch::Launch& launch() const { return launch_; }
  // On rank 0, and only as far as torchrun's store tells: this is not the run's first attempt.
  bool was_started_before() const { return was_started_before_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  // The address at which the other ranks can reach this one's sockets.
  const std::string& local_address() const { return local_address_; }

 private:
  Endpoint Serve(const RendezvousOptions& options, int own_descriptor, const ControlPlaneOptions& control,
                 std::unique_ptr<ControlServer>& server);

  launch::Launch launch_;
  std::unique_ptr<AgentBoard> board_;  // null but under torchrun
  bool was_started_before_ = false;
  std::string local_address_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<ControlPlane> control_;
};

}  // namespace dtrain::distributed
