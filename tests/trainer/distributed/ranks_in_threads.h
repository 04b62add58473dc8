// Ranks as threads of one process, meeting through a real store on the loopback interface.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "trainer/distributed/rendezvous.h"

namespace dtrain::distributed {

constexpr double kTimeoutSeconds = 20;  // for a busy machine: ranks that meet wait a fraction of it

// A port that nobody uses; the socket keeps it until rank 0's store takes it over.
struct FreePort {
  FreePort();
  int fd = -1;
  int port = 0;
};

launch::Launch LaunchOf(int rank, int world_size, int port);

// A launcher's store on that port.
c10::intrusive_ptr<c10d::Store> ServeStore(const FreePort& port);

// Calls `body(rank)` in a thread each and waits for all. What a body throws is thrown here, the lowest rank's first.
void RunRanks(int world_size, const std::function<void(int rank)>& body);

}  // namespace dtrain::distributed
