// Lines of text over TCP, with deadlines. Ranks use it to find each other and for the control plane; tensors travel
// over Gloo and NCCL. Every call returns by its deadline (looking up a name excepted), whatever the other side does.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::control {

// The clock by which ranks measure how long they wait for each other.
using Clock = std::chrono::steady_clock;

// Longer timeouts are cut to this one, about eleven days. Its milliseconds still fit into an int, which is what c10d
// passes to poll().
constexpr double kLongestTimeoutSeconds = 1e6;

inline double ClampedSeconds(double seconds) { return std::clamp(seconds, 0.0, kLongestTimeoutSeconds); }

// Converts any number of seconds, clamped so that the result does not overflow when it is added to a time point or
// passed to c10d or Gloo.
inline std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(ClampedSeconds(seconds) * 1000));
}

// A connected stream socket that never blocks. Movable; owns its descriptor. Not for use by several threads at once.
class LineSocket {
 public:
  LineSocket() = default;
  explicit LineSocket(int descriptor);  // takes ownership, and makes the descriptor non-blocking
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&& other) noexcept;
  ~LineSocket();

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

  // Reads at most one block (64 KiB) of what has arrived, so that a peer which sends without a pause does not keep its
  // reader busy. Returns false if the other side has closed, the connection is broken, or the next line is longer than
  // allowed. NextLine still returns the lines that were received before.
  bool Receive();
  // Returns the next complete line without its newline; valid until the next call of Receive. Empty if there is none.
  std::optional<std::string_view> NextLine();

  // Queues a line, and sends as much of the queue as the system accepts. Returns false if the connection is broken.
  // Closes the socket if more than kMaxUnsent bytes remain unsent.
  bool Send(const std::string& line);
  // Sends as much of the queue as the system accepts. Returns false if the connection is broken.
  bool Flush();
  bool has_unsent() const { return !unsent_.empty(); }
  void Close();

  // Sets the longest line that is accepted, in bytes. It is kMaxLine at first, and set lower for strangers.
  void set_max_line(size_t bytes) { max_line_ = bytes; }

  static constexpr size_t kMaxLine = size_t{4} << 20;
  static constexpr size_t kMaxUnsent = size_t{16} << 20;

 private:
  int descriptor_ = -1;
  size_t max_line_ = kMaxLine;
  std::string received_;
  size_t taken_ = 0;    // bytes of received_ that NextLine has returned
  size_t scanned_ = 0;  // bytes of received_ that are taken or known to contain no newline
  std::string unsent_;
};

// Waits until a line has arrived or `deadline` has passed. Returns empty if none came in time, or if the other side
// closed the connection, in which case the socket is closed, too.
std::optional<std::string> WaitForLine(LineSocket& socket, Clock::time_point deadline);

// Tries once to connect to host:port before `deadline`. On failure the socket that it returns is not open, and
// `*reason` says why.
LineSocket TryConnect(const std::string& host, int port, Clock::time_point deadline, std::string* reason);

// Returns the address of this machine's interface that leads to host:port. If there is no such interface, tries until
// `deadline`, because the network may come up later, then throws PeerLostError. If the name does not resolve, tries for
// 30 seconds, because a cluster's name service may lag behind, then throws UsageError; in a pod of Kubernetes until
// `deadline`, then throws PeerLostError. Meanwhile `warn` hears of it. Throws Preempted when stopped.
std::string AddressTowards(const std::string& host, int port, Clock::time_point deadline,
                           const std::function<bool()>& stop_requested,
                           const std::function<void(const std::string&)>& warn);

}  // namespace dtrain::control
