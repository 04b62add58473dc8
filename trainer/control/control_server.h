// Rank 0's side of the control plane: the one place that knows of every rank. It listens at the address at which the
// ranks meet, and a connection of each rank stays open for the whole run. So the end of a process is known, and known
// to be that rank's, as soon as the kernel closes its sockets: a key-value store would not tell.
//
// Lines of JSON, {"kind": …} and (control_message.h has one parser for all of them):
//   newcomer → server  hello  magic version nonce rank world_size host pid    within seconds; closed otherwise
//                      proof  proof                   by the run's token, of both nonces and what the hello has said
//   server → newcomer  challenge nonce | welcome store_port proof | refused message
//   rank → server   config config                     ready to start; an object, compared key by key with rank 0's
//                   at     at                         several times a second: a Position
//                   stop                              this rank was asked to stop
//                   accept point | reject point passed   answers to propose
//                   failed code message | lost message   this rank ends: by itself, or because it lost a peer
//                   bad_record …                      see bad_record_count.h
//                   leave                             the orderly end
//   launcher → server  as a newcomer of rank -1, then  death rank reason
//   server → all    tick at                           several times a second: rank 0's position
//                   go | propose point | commit point | bye
//                   bad_records split count           how many are known of all ranks
//                   end    code message hint rank     everybody ends with this code; `rank` is the root cause or -1
//   server → launcher  noted
//
// Both sides prove that they know the token, the newcomer first; the token itself is never sent.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace dtrain::distributed {

// Ranks that are missing are named this often, here and by those that wait for rank 0.
constexpr auto kAnnouncementInterval = std::chrono::seconds(10);

struct ControlServerOptions {
  int listening_descriptor = -1;  // taken over
  int own_descriptor = -1;        // taken over: the server's end of rank 0's connection, which needs no network
  int store_port = 0;             // told to the ranks
  std::string token;
  int world_size = 1;
  double init_timeout_seconds = 300;  // for all ranks to come, and to say that they are ready
  double comm_timeout_seconds = 600;  // see StallWatch
  std::function<void(const std::string&)> warn = [](const std::string&) {};  // on the server's thread
};

class ControlServer {
 public:
  explicit ControlServer(ControlServerOptions options);
  // Closes all connections.
  ~ControlServer();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace dtrain::distributed
