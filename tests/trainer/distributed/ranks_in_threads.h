// Ranks as threads of one process, which meet through a real store on the loopback interface.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "trainer/distributed/communicator.h"
#include "trainer/distributed/rendezvous.h"

namespace dtrain::distributed {

constexpr double kTimeoutSeconds = 20;  // enough for a busy machine; ranks usually meet in a fraction of it

// A port that is free. The socket reserves it until rank 0's store takes it over.
struct FreePort {
  FreePort();
  int fd = -1;
  int port = 0;
};

launch::Launch LaunchOf(int rank, int world_size, int port);

// Starts a store on that port, as a launcher does.
c10::intrusive_ptr<c10d::Store> ServeStore(const FreePort& port);

// Calls `body(rank)` in a thread for each rank and waits for all. Rethrows the exception of the lowest rank that threw.
void RunRanks(int world_size, const std::function<void(int rank)>& body);

// Calls `body(rank, rendezvous)` in ranks that have met, and lets them leave.
void RunMet(int world_size, const std::function<void(int rank, Rendezvous& rendezvous)>& body);

// Calls `body(rank, communicator)` in connected ranks. A rank whose peer leaves continues, and gets Gloo's error.
void RunConnected(int world_size, const std::function<void(int rank, Communicator& communicator)>& body);

// Calls `body(rank, communicator, control)` in the ranks of a training: connected ones, or one that is alone.
void RunTraining(int world_size,
                 const std::function<void(int rank, Communicator& communicator, control::ControlPlane& control)>& body);

}  // namespace dtrain::distributed
