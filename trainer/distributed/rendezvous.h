// How the ranks of a run find each other: through rank 0's control server, which admits the processes that belong to
// the run and tells them the port of c10d's key-value store. Gloo and NCCL exchange their addresses over that store.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trainer/control/control_plane.h"
#include "trainer/control/join.h"
#include "trainer/device/device_choice.h"
#include "trainer/launch/launch.h"

namespace c10d {
class Store;
class TCPStore;
}  // namespace c10d

namespace dtrain::distributed {

// What is longer goes through a store in pieces of so many bytes.
inline constexpr size_t kPieceBytes = size_t{4} << 20;

// How long to wait for a store. A stop ends the wait earlier, with Preempted.
struct StoreWait {
  double timeout_seconds = 300;
  std::function<bool()> stop_requested = [] { return false; };
};

// Parses a text that AgentBoard::Post has written. Throws PeerLostError if it is anything else.
control::Endpoint ParseEndpoint(const std::string& posting);

// The store of torchrun's agent as a board on which rank 0 posts its address. The store outlives the ranks: when nodes
// join or leave, torchrun restarts all ranks with the same store. Its restart counters do not tell reliably that this
// has happened, and differ between ranks. So there is a single key, the newest posting counts, and readers read it
// again before each attempt.
class AgentBoard {
 public:
  // Connects to the store at host:port. Throws PeerLostError if none answers in time, Preempted if asked to stop.
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

struct RendezvousOptions {
  launch::Launch launch;
  int listen_fd = -1;  // on rank 0: a socket of the node launcher that listens already, or -1
  double init_timeout_seconds = 300;
};

class Rendezvous {
 public:
  // Starts the control server on rank 0, connects to it and to rank 0's store, and starts the control plane. Throws
  // what Join and AddressTowards throw, PeerLostError if rank 0's or the launcher's store does not answer, Preempted,
  // and UsageError if rank 0 cannot listen.
  Rendezvous(const RendezvousOptions& options, control::ControlPlaneOptions control);
  ~Rendezvous();

  // Shared, because it must outlive the rendezvous: a failure is reported to it last of all.
  const std::shared_ptr<control::ControlPlane>& control() const { return control_; }

  // See ControlPlane::WaitForAll.
  void WaitForAll(const std::string& config) { control_->WaitForAll(config); }

  // Returns rank 0's value on every rank; the other ranks' values are ignored. Throws PeerLostError if the value in the
  // store was written by somebody who does not know the token.
  std::string ShareFromFirst(const std::string& key, const std::string& value);

  // Returns the value of the rank that called this first, on every rank. Throws as ShareFromFirst does.
  std::string ShareFromEarliest(const std::string& key, const std::string& value);

  const launch::Launch& launch() const { return launch_; }
  // On rank 0 under torchrun: whether an earlier attempt of this run has posted an address. Otherwise false.
  bool was_started_before() const { return was_started_before_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }  // a SealedStore
  // The address of this machine's interface towards rank 0, at which the other ranks can reach this rank's sockets.
  const std::string& local_address() const { return local_address_; }

 private:
  control::Endpoint Serve(const RendezvousOptions& options, int own_descriptor,
                          const control::ControlPlaneOptions& control, std::unique_ptr<control::ControlServer>& server);

  launch::Launch launch_;
  std::unique_ptr<AgentBoard> board_;  // null, except under torchrun
  bool was_started_before_ = false;
  std::string local_address_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<control::ControlPlane> control_;
};

// Ensures that no two ranks of a run compute on the same GPU. They would get half the speed and half the memory each,
// and NCCL refuses it with a message that does not help. Called by all ranks after WaitForAll; they exchange their GPUs
// over the store. `gpu` is this rank's, empty for the CPU; `machine` is MachineId(). If two ranks share a GPU, every
// rank throws UsageError naming them.
void RequireDistinctGpus(Rendezvous& rendezvous, const device::Gpu& gpu, const std::string& machine);

// Returns the boot id of this machine's kernel, or the host's name if it cannot be read. All containers of a machine
// have the same boot id; they may share GPUs although their host names differ.
std::string MachineId();

}  // namespace dtrain::distributed
