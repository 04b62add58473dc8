// All connected sockets are non-blocking, and poll() is the only call that waits for them.
#include "trainer/control/line_socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "trainer/errors.h"
#include "trainer/launch/local_address.h"

namespace dtrain::control {
namespace {

constexpr auto kResolveRetry = std::chrono::milliseconds(200);
constexpr auto kResolveAnnouncements = std::chrono::seconds(10);
constexpr auto kResolvePatience = std::chrono::seconds(30);  // a pod may start before its name is known

int TimeLeft(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

bool WaitFor(int descriptor, short events, Clock::time_point deadline) {
  pollfd watched{descriptor, events, 0};
  int ready = 0;
  do {
    ready = poll(&watched, 1, TimeLeft(deadline));
  } while ((ready < 0 && errno == EINTR) || (ready == 0 && Clock::now() < deadline));
  return ready > 0;
}

}  // namespace

LineSocket::LineSocket(int descriptor) : descriptor_(descriptor) {
  fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
  const int yes = 1;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

LineSocket::LineSocket(LineSocket&& other) noexcept { *this = std::move(other); }

LineSocket& LineSocket::operator=(LineSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(max_line_, other.max_line_);
  std::swap(received_, other.received_);
  std::swap(taken_, other.taken_);
  std::swap(scanned_, other.scanned_);
  std::swap(unsent_, other.unsent_);
  return *this;
}

LineSocket::~LineSocket() { Close(); }

void LineSocket::Close() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

bool LineSocket::Receive() {
  if (!is_open()) return false;
  received_.erase(0, taken_);
  scanned_ -= taken_;
  taken_ = 0;
  char block[65536];
  ssize_t got = 0;
  do {
    got = recv(descriptor_, block, sizeof block, 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  received_.append(block, static_cast<size_t>(got));
  const size_t end = received_.find('\n', scanned_);
  return got > 0 && (end == std::string::npos ? received_.size() : end) <= max_line_;
}

std::optional<std::string_view> LineSocket::NextLine() {
  const size_t end = received_.find('\n', scanned_);
  if (end == std::string::npos || end - taken_ > max_line_) {
    scanned_ = end == std::string::npos ? received_.size() : end;
    return std::nullopt;
  }
  const std::string_view line = std::string_view(received_).substr(taken_, end - taken_);
  taken_ = scanned_ = end + 1;
  return line;
}

bool LineSocket::Send(const std::string& line) {
  unsent_.append(line).append("\n");
  const bool works = Flush();
  if (unsent_.size() > kMaxUnsent) Close();
  return works && is_open();
}

bool LineSocket::Flush() {
  size_t sent_bytes = 0;
  bool works = is_open();
  while (works && sent_bytes < unsent_.size()) {
    const ssize_t sent = send(descriptor_, unsent_.data() + sent_bytes, unsent_.size() - sent_bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    works = sent >= 0;
    if (works) sent_bytes += static_cast<size_t>(sent);
  }
  unsent_.erase(0, sent_bytes);
  return works;
}

std::optional<std::string> WaitForLine(LineSocket& socket, Clock::time_point deadline) {
  while (true) {
    if (const auto line = socket.NextLine()) return std::string(*line);
    if (!WaitFor(socket.descriptor(), POLLIN, deadline)) return std::nullopt;
    if (socket.Receive()) continue;
    const auto line = socket.NextLine();
    std::optional<std::string> last;
    if (line) last = *line;
    socket.Close();
    return last;
  }
}

// Nobody listens at a port of the range from which the system takes those that connect: then it may take this one.
bool IsConnectedToItself(int descriptor) {
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  return getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 && own_bytes == peer_bytes &&
         std::memcmp(&own, &peer, own_bytes) == 0;
}

LineSocket TryConnect(const std::string& host, int port, Clock::time_point deadline, std::string* reason) {
  const launch::Addresses found = launch::Resolve(host, port, SOCK_STREAM, reason);
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    const int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) continue;
    LineSocket connection(descriptor);
    int error = connect(descriptor, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof error;
      error = WaitFor(descriptor, POLLOUT, deadline) ? 0 : ETIMEDOUT;
      if (error == 0) getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0 && IsConnectedToItself(descriptor)) error = ECONNREFUSED;
    if (error == 0) return connection;
    *reason = std::strerror(error);
  }
  return {};
}

std::string AddressTowards(const std::string& host, int port, Clock::time_point deadline,
                           const std::function<bool()>& stop_requested,
                           const std::function<void(const std::string&)>& warn) {
  // A pod gets its name with its node, which a cluster may have to start first.
  const bool names_are_pods = std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
  const auto resolved_by = names_are_pods ? deadline : std::min(deadline, Clock::now() + kResolvePatience);
  auto next_announcement = Clock::now() + kResolveAnnouncements;
  while (true) {
    if (stop_requested()) throw Preempted("stopped before the training began");
    std::string reason;
    const launch::Addresses found = launch::Resolve(host, port, SOCK_DGRAM, &reason);
    if (found) {
      std::string address = launch::LocalAddressTowards(*found, &reason);
      if (!address.empty()) return address;
    }
    const auto now = Clock::now();
    const std::string unknown = "the master address '" + host + "' does not resolve: " + reason;
    if (!found && now >= resolved_by) {
      const std::string hint = "check --master_addr (or MASTER_ADDR of the launcher)";
      if (names_are_pods)
        throw PeerLostError(unknown, "is the pod of rank 0 running? " + hint + "; --init_timeout sets how long to try");
      throw UsageError(unknown, hint);
    }
    if (!found && now >= next_announcement) {
      next_announcement = now + kResolveAnnouncements;
      warn(unknown);
    }
    if (found && now >= deadline) {
      throw PeerLostError(
          "this machine cannot reach rank 0 at " + host + ": " + reason,
          "is the network of this machine up? check --master_addr; --init_timeout sets how long to try");
    }
    std::this_thread::sleep_for(kResolveRetry);
  }
}

}  // namespace dtrain::control
