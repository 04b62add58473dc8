#include "trainer/control/control_connections.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "trainer/errors.h"

namespace dtrain::control {
namespace {

using nlohmann::json;

constexpr auto kStrangerPatience = std::chrono::seconds(5);
constexpr auto kDescriptorPatience = std::chrono::milliseconds(200);
constexpr size_t kMaxStrangers = 256;
constexpr rlim_t kOtherFiles = 256;  // rank 0's open files besides the connections
constexpr int kMaxAccepted = 64;     // in a row, so that connected ranks do not wait long to be read

// Each connection is an open file, and many systems allow a process 1,024 of them unless it asks for more.
void AllowConnections(int world_size) {
  const rlim_t needed = static_cast<rlim_t>(world_size) + kMaxStrangers + kOtherFiles;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= needed) return;
  if (files.rlim_max < needed) {
    throw UsageError(std::to_string(world_size) + " ranks need " + std::to_string(needed) +
                         " open files on rank 0's machine, which allows " + std::to_string(files.rlim_max),
                     "raise its hard limit (ulimit -Hn, LimitNOFILE of the service, ulimits of the container)");
  }
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

void Peer::Send(const json& message) { socket.Send(ControlLine(message)); }

ControlConnections::ControlConnections(int listening_descriptor, int own_descriptor, int world_size,
                                       std::function<void(const std::string&)> warn)
    : world_size_(world_size), warn_(std::move(warn)), listener_(listening_descriptor) {
  AllowConnections(world_size);
  if (own_descriptor >= 0) Add(own_descriptor);
}

void ControlConnections::Serve(std::chrono::milliseconds patience,
                               const std::function<void(Peer&, const json&)>& handle,
                               const std::function<void(const Peer&)>& gone) {
  const bool accepts = Clock::now() >= accepts_after_;
  std::vector<pollfd> watched = {{accepts ? listener_.descriptor() : -1, POLLIN, 0}};
  std::vector<Peer*> peers;
  for (Peer& peer : peers_) {
    const short sending = peer.socket.has_unsent() ? POLLOUT : 0;
    watched.push_back({peer.socket.descriptor(), static_cast<short>(POLLIN | sending), 0});
    peers.push_back(&peer);
  }
  if (poll(watched.data(), watched.size(), static_cast<int>(patience.count())) < 0) return;
  if (watched[0].revents != 0) Accept();
  for (size_t i = 0; i < peers.size(); ++i) {
    if ((watched[i + 1].revents & POLLOUT) != 0) peers[i]->socket.Flush();
    if ((watched[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) Read(*peers[i], handle);
  }
  RemoveClosed(gone);
}

void ControlConnections::Accept() {
  for (int i = 0; i < kMaxAccepted; ++i) {
    const int descriptor = accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) return PauseAccepting(errno);
    Add(descriptor);
    DropOldestStranger();
  }
}

// While no descriptor is free, a connection that waits to be accepted would wake every poll() at once. So the server
// does not watch the listening socket for a while.
void ControlConnections::PauseAccepting(int error) {
  if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return;
  accepts_after_ = Clock::now() + kDescriptorPatience;
  if (std::exchange(warned_of_descriptors_, true)) return;
  warn_(std::string("rank 0 cannot take connections: ") + std::strerror(error) +
        "; raise the limit of open files (ulimit -n)");
}

void ControlConnections::Add(int descriptor) {
  Peer& peer = peers_.emplace_back();
  peer.socket = LineSocket(descriptor);
  peer.socket.set_max_line(kLongestToStrangers);
  peer.since = peer.heard = Clock::now();
}

// Limits the number of strangers by dropping the oldest one, which has had the most time to prove who it is.
void ControlConnections::DropOldestStranger() {
  if (peers_.size() <= static_cast<size_t>(world_size_) + kMaxStrangers) return;
  const auto oldest =
      std::ranges::find_if(peers_, [](const Peer& peer) { return peer.rank < 0 && peer.socket.is_open(); });
  if (oldest != peers_.end()) oldest->socket.Close();
}

void ControlConnections::Read(Peer& peer, const std::function<void(Peer&, const json&)>& handle) {
  const bool open = peer.socket.Receive();
  peer.heard = Clock::now();
  while (peer.socket.is_open()) {
    const auto line = peer.socket.NextLine();
    if (!line) break;
    try {
      handle(peer, ParseControlLine(*line, peer.speaker()));
    } catch (const BadControlLine& bad) {
      peer.fault = bad.what();
      peer.socket.Close();
    }
  }
  if (!open) peer.socket.Close();
}

void ControlConnections::RemoveClosed(const std::function<void(const Peer&)>& gone) {
  const auto now = Clock::now();
  for (Peer& peer : peers_) {
    if (peer.rank < 0 && now - peer.since >= kStrangerPatience) peer.socket.Close();
    if (peer.socket.is_open() || peer.rank < 0) continue;
    ranks_.erase(peer.rank);
    gone(peer);
  }
  // `gone` may have closed the connection of another rank; that rank is reported in the next round.
  std::erase_if(peers_, [this](const Peer& peer) { return !peer.socket.is_open() && !ranks_.contains(peer.rank); });
}

// Rank 0 is last, because its process, with this thread, may end as soon as it gets the message.
void ControlConnections::Broadcast(const json& message, bool only_if_nothing_waits) {
  const std::string line = ControlLine(message);
  const auto send = [&](Peer& peer) {
    if (peer.socket.is_open() && !(only_if_nothing_waits && peer.socket.has_unsent())) peer.socket.Send(line);
  };
  for (Peer& peer : peers_) {
    if (peer.rank > 0) send(peer);
  }
  if (Peer* first = Find(0)) send(*first);
}

void ControlConnections::Admit(Peer& peer, int rank) {
  peer.rank = rank;
  peer.socket.set_max_line(LineSocket::kMaxLine);
  ranks_[rank] = &peer;
}

Peer* ControlConnections::Find(int rank) {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : found->second;
}

}  // namespace dtrain::control
