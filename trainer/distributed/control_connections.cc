#include "trainer/distributed/control_connections.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <vector>

#include "trainer/errors.h"

namespace dtrain::distributed {
namespace {

using nlohmann::json;

constexpr auto kStrangerPatience = std::chrono::seconds(5);
constexpr size_t kMaxStrangers = 256;
constexpr size_t kMaxStrangersLine = 1024;
constexpr rlim_t kOtherFiles = 256;  // what else rank 0 has open
constexpr size_t kMaxAccepted = 64;  // at once, while the ranks that are there wait to be read

// Names of hosts and messages of other ranks may be no UTF-8.
std::string LineOf(const json& message) { return message.dump(-1, ' ', false, json::error_handler_t::replace); }

// A connection is an open file, and many systems let a process have 1,024 unless it asks for more.
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

void Peer::Send(const json& message) { socket.Send(LineOf(message)); }

ControlConnections::ControlConnections(int listening_descriptor, int own_descriptor, int world_size)
    : world_size_(world_size), listener_(listening_descriptor) {
  AllowConnections(world_size);
  if (own_descriptor >= 0) Add(own_descriptor);
}

void ControlConnections::Serve(std::chrono::milliseconds patience,
                               const std::function<void(Peer&, const json&)>& handle,
                               const std::function<void(const Peer&)>& gone) {
  std::vector<pollfd> watched = {{listener_.descriptor(), POLLIN, 0}};
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
  for (size_t i = 0; i < kMaxAccepted; ++i) {
    const int descriptor = accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) return;
    Add(descriptor);
    if (peers_.size() > static_cast<size_t>(world_size_) + kMaxStrangers) peers_.pop_back();
  }
}

void ControlConnections::Add(int descriptor) {
  Peer& peer = peers_.emplace_back();
  peer.socket = LineSocket(descriptor);
  peer.since = peer.heard = Clock::now();
}

void ControlConnections::Read(Peer& peer, const std::function<void(Peer&, const json&)>& handle) {
  const bool open = peer.socket.Receive();
  peer.heard = Clock::now();
  while (const auto line = peer.socket.NextLine()) {
    try {
      handle(peer, json::parse(*line, nullptr, /*allow_exceptions=*/false));
    } catch (const json::exception&) {  // a line that is none of ours: the end of the conversation
      peer.socket.Close();
    }
    if (!peer.socket.is_open()) return;
  }
  const bool too_much = peer.rank < 0 && peer.socket.unfinished_line().size() > kMaxStrangersLine;
  if (!open || too_much) peer.socket.Close();
}

void ControlConnections::RemoveClosed(const std::function<void(const Peer&)>& gone) {
  const auto now = Clock::now();
  for (Peer& peer : peers_) {
    if (peer.is_stranger() && now - peer.since >= kStrangerPatience) peer.socket.Close();
    if (!peer.socket.is_open() && peer.rank >= 0) gone(peer);
  }
  std::erase_if(peers_, [](const Peer& peer) { return !peer.socket.is_open(); });
}

// To rank 0 last: its process may end at once, and this thread with it.
void ControlConnections::Broadcast(const json& message, bool only_if_nothing_waits) {
  const std::string line = LineOf(message);
  const auto send = [&](Peer& peer) {
    if (peer.socket.is_open() && !(only_if_nothing_waits && peer.socket.has_unsent())) peer.socket.Send(line);
  };
  for (Peer& peer : peers_) {
    if (peer.rank > 0) send(peer);
  }
  if (Peer* first = Find(0)) send(*first);
}

Peer* ControlConnections::Find(int rank) {
  for (Peer& peer : peers_) {
    if (peer.rank == rank && !peer.is_launcher) return rank < 0 ? nullptr : &peer;
  }
  return nullptr;
}

bool ControlConnections::AllAreHere() {
  for (int rank = 0; rank < world_size_; ++rank) {
    if (Find(rank) == nullptr) return false;
  }
  return true;
}

}  // namespace dtrain::distributed
