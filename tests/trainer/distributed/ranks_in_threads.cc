// See the header.
#include "tests/trainer/distributed/ranks_in_threads.h"

#include <cstdlib>
#include <exception>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "trainer/launch/local_address.h"

namespace dtrain::distributed {

FreePort::FreePort() : fd(launch::ListenOn("127.0.0.1", 0)), port(launch::PortOf(fd)) {}

launch::Launch LaunchOf(int rank, int world_size, int port) {
  launch::Launch launch;
  launch.rank = launch.local_rank = rank;
  launch.world_size = launch.local_world_size = world_size;
  launch.master_port = port;
  return launch;
}

c10::intrusive_ptr<c10d::Store> ServeStore(const FreePort& port) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.masterListenFd = port.fd;
  options.port = static_cast<uint16_t>(port.port);
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

void RunRanks(int world_size, const std::function<void(int rank)>& body) {
  // Turns off c10d's flight recorder. There is one per process, and it has a map without a lock, so it would crash with
  // ranks as threads. In the programs each rank is a process.
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(world_size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          failures[static_cast<size_t>(rank)] = std::current_exception();
        }
      });
    }
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void RunMet(int world_size, const std::function<void(int, Rendezvous&)>& body) {
  const FreePort port;
  control::ControlPlaneOptions control;
  control.end_process = [](const report::Failure&) {};
  RunRanks(world_size, [&](int rank) {
    Rendezvous rendezvous({.launch = LaunchOf(rank, world_size, port.port), .listen_fd = rank == 0 ? port.fd : -1},
                          control);
    rendezvous.WaitForAll("{}");
    body(rank, rendezvous);
    rendezvous.control()->Leave();
  });
}

void RunConnected(int world_size, const std::function<void(int, Communicator&)>& body) {
  RunMet(world_size, [&](int rank, Rendezvous& rendezvous) {
    Communicator communicator(rendezvous, at::kCPU, kTimeoutSeconds);
    body(rank, communicator);
  });
}

void RunTraining(int world_size, const std::function<void(int, Communicator&, control::ControlPlane&)>& body) {
  if (world_size == 1) {
    Communicator alone;
    control::ControlPlane control([] { return false; });
    return body(0, alone, control);
  }
  RunMet(world_size, [&](int rank, Rendezvous& rendezvous) {
    Communicator communicator(rendezvous, at::kCPU, kTimeoutSeconds);
    body(rank, communicator, *rendezvous.control());
  });
}

}  // namespace dtrain::distributed
