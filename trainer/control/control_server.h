// Rank 0's side of the control plane: the one place that knows of every rank. It listens at the address at which the
// ranks meet, and keeps one connection to each rank open for the whole run. So it learns that a rank's process has
// ended as soon as the kernel closes the sockets of that process; a key-value store would not tell.
//
// The messages are lines of JSON, {"kind": …} and these fields (control_message.h parses all of them):
//   client → server    hello  magic version nonce rank world_size host pid    within seconds, or it is disconnected
//                      proof  proof                   see control_message.h
//   server → client    challenge nonce | welcome store_port proof | refused message
//   rank → server   config config                     ready to start; its object is compared key by key with rank 0's
//                   at     at                         the rank's Position, several times a second
//                   stop                              this rank was asked to stop
//                   accept point | reject point passed   answers to propose
//                   failed code message | lost message   this rank ends with its own failure | it has lost a peer
//                   bad_record …                      see gathering.h
//                   leave                             this rank has come to its orderly end
//   launcher → server  death rank reason              after it was admitted as a client of rank -1
//   server → all    tick at                           rank 0's Position, several times a second
//                   go                                all ranks are ready: training starts
//                   propose point | commit point      see gathering.h
//                   bye                               all ranks have sent leave
//                   bad_records split count           the number of different bad records of all ranks together
//                   end    code message hint rank     all ranks end with this code; `rank` is the root cause or -1
//   server → launcher  noted                          answers death
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
