// TCP with deadlines, for lines of text: what the ranks need to find each other and to talk about the run itself
// (tensors travel over Gloo and NCCL). Nothing here waits longer than it was told to, whatever the other side does.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace dtrain::distributed {

using Clock = std::chrono::steady_clock;

inline std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// A connected TCP socket that never blocks. Movable; closes what it holds.
class LineSocket {
 public:
  LineSocket() = default;
  explicit LineSocket(int descriptor);
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&& other) noexcept;
  ~LineSocket();

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

  // Reads what has arrived. False: the other side has closed, or the connection broke; lines read before are there.
  bool Receive();
  // The next complete line, without its end. A line longer than kMaxLine closes the socket.
  std::optional<std::string> NextLine();
  // What has arrived of a line that is not complete.
  const std::string& unfinished_line() const { return received_; }

  // Adds a line to what is to be sent, and sends as much as the system takes. False: the connection broke.
  bool Send(const std::string& line);
  bool Flush();
  bool has_unsent() const { return !unsent_.empty(); }
  void Close();

  static constexpr size_t kMaxLine = size_t{4} << 20;

 private:
  int descriptor_ = -1;
  std::string received_;
  std::string unsent_;
};

// Waits until a line has arrived or `deadline` has passed. nullopt: too late, or closed (then it is no longer open).
std::optional<std::string> WaitForLine(LineSocket& socket, Clock::time_point deadline);

// One attempt: connects to host:port before `deadline`. Not open on failure, with the reason in `*reason`.
LineSocket TryConnect(const std::string& host, int port, Clock::time_point deadline, std::string* reason);

// The address of this machine's interface that leads to host:port. Where there is no such interface, tries until
// `deadline` (the network may come up later), then throws PeerLostError; where the name does not resolve, tries for
// some seconds (a cluster's name service may be behind), then throws UsageError. Throws Preempted when a stop is asked
// for.
std::string AddressTowards(const std::string& host, int port, Clock::time_point deadline,
                           const std::function<bool()>& stop_requested);

// A socket that listens on `address` only; port 0: any. Throws UsageError.
int ListenOn(const std::string& address, int port);

// The port of a listening socket.
int PortOf(int listening_descriptor);

}  // namespace dtrain::distributed
