// TCP with deadlines, for lines of text: what the ranks need to find each other and to talk about the run itself
// (tensors travel over Gloo and NCCL). Nothing here waits longer than it was told to, whatever the other side does.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/control/clock.h"

namespace dtrain::distributed {

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

  // Reads some of what has arrived, and returns: whoever sends without a pause must not keep its reader from all else.
  // False: the other side has closed, the connection broke, or what waits for NextLine is longer than a line may be;
  // lines that were read before are there.
  bool Receive();
  // The next complete line, without its end; valid until the next call of Receive.
  std::optional<std::string_view> NextLine();

  // Adds a line to what is to be sent, and sends as much as the system takes. False: the connection broke. Where the
  // other side leaves more than kMaxUnsent unread the socket is closed.
  bool Send(const std::string& line);
  bool Flush();
  bool has_unsent() const { return !unsent_.empty(); }
  void Close();

  // Of a line. Little for strangers; kMaxLine from the start.
  void set_max_line(size_t bytes) { max_line_ = bytes; }

  static constexpr size_t kMaxLine = size_t{4} << 20;
  static constexpr size_t kMaxUnsent = size_t{16} << 20;

 private:
  int descriptor_ = -1;
  size_t max_line_ = kMaxLine;
  std::string received_;
  size_t taken_ = 0;    // bytes of received_ that NextLine has returned
  size_t scanned_ = 0;  // bytes of received_ known to be without a line's end, or taken
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
