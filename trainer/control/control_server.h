// Rank 0's side of the control plane: the one place that knows of every rank. It listens at the address at which the
// ranks meet, and keeps one connection to each rank open for the whole run. So it learns that a rank's process has
// ended as soon as the kernel closes the sockets of that process; a key-value store would not tell.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace dtrain::control {

// How often the server names the missing ranks, and a rank that waits for rank 0 says so.
constexpr auto kAnnouncementInterval = std::chrono::seconds(10);

struct ControlServerOptions {
  int listening_descriptor = -1;  // owned by the server from then on
  int own_descriptor = -1;        // likewise: the server's end of rank 0's own connection, which needs no network
  int store_port = 0;             // the port of c10d's store, which the server tells the ranks
  std::string token;
  int world_size = 1;
  double init_timeout_seconds = 300;                                         // for all ranks to connect and to be ready
  double comm_timeout_seconds = 600;                                         // see StallWatch
  std::function<void(const std::string&)> warn = [](const std::string&) {};  // on the server's thread
};

class ControlServer {
 public:
  // Starts the server's thread. Throws UsageError if this process may not open a connection for each rank.
  explicit ControlServer(ControlServerOptions options);
  // Joins the thread and closes all connections.
  ~ControlServer();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace dtrain::control
