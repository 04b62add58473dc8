// The control planes of several ranks in one process, connected through the loopback interface.
#pragma once

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trainer/control/control_plane.h"
#include "trainer/launch/local_address.h"

namespace dtrain::control {

// Returns the processor time that this process's threads but the calling one have used.
inline double SecondsOfOtherThreads() {
  const auto seconds = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  return seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(CLOCK_THREAD_CPUTIME_ID);
}

class LoopbackRanks {
 public:
  static constexpr double kTimeoutSeconds = 20;

  explicit LoopbackRanks(int world_size, double init_timeout_seconds = kTimeoutSeconds)
      : init_timeout_seconds_(init_timeout_seconds),
        descriptor_(launch::ListenOn("127.0.0.1", 0)),
        port_(launch::PortOf(descriptor_)),
        stop_requested_(static_cast<size_t>(world_size)),
        ends_(static_cast<size_t>(world_size)),
        controls_(static_cast<size_t>(world_size)) {}

  int port() const { return port_; }
  Endpoint endpoint() const { return {"127.0.0.1", port_, "token"}; }
  // The messages with which the ranks' processes would have ended; empty for ranks that go on.
  std::vector<std::string> ends() {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

  JoinOptions JoinOptionsOf(int rank) const {
    return {.locate = [this] { return endpoint(); },
            .rank = rank,
            .world_size = static_cast<int>(controls_.size()),
            .timeout_seconds = init_timeout_seconds_,
            .stop_requested = [this, rank] { return stop_requested_[static_cast<size_t>(rank)].load(); }};
  }

  ControlPlane& Start(int rank) {
    std::unique_ptr<ControlServer> server;
    if (rank == 0) {
      server = std::make_unique<ControlServer>(ControlServerOptions{.listening_descriptor = descriptor_,
                                                                    .token = "token",
                                                                    .world_size = static_cast<int>(controls_.size()),
                                                                    .init_timeout_seconds = init_timeout_seconds_,
                                                                    .comm_timeout_seconds = kTimeoutSeconds});
    }
    ControlPlaneOptions options;
    options.rank = rank;
    options.world_size = static_cast<int>(controls_.size());
    options.comm_timeout_seconds = kTimeoutSeconds;
    options.stop_requested = [this, rank] { return stop_requested_[static_cast<size_t>(rank)].load(); };
    options.end_process = [this, rank](const report::Failure& failure) {
      const std::lock_guard lock(mutex_);
      ends_[static_cast<size_t>(rank)] = failure.message;
      changed_.notify_all();
    };
    auto& control = controls_[static_cast<size_t>(rank)];
    control = std::make_unique<ControlPlane>(options, Join(JoinOptionsOf(rank)), std::move(server));
    return *control;
  }

  // Runs `body` in a thread for each rank and waits for all threads.
  void Run(const std::function<void(int rank)>& body) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < std::ssize(controls_); ++rank) threads.emplace_back([&body, rank] { body(rank); });
  }

  void RequestStop(int rank) { stop_requested_[static_cast<size_t>(rank)] = true; }
  void WaitForEnd(int rank) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ends_[static_cast<size_t>(rank)].empty(); });
  }

 private:
  const double init_timeout_seconds_;
  const int descriptor_;
  const int port_;
  std::vector<std::atomic<bool>> stop_requested_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> ends_;
  std::vector<std::unique_ptr<ControlPlane>> controls_;  // destroyed first, because their threads use all members above
};

}  // namespace dtrain::control
