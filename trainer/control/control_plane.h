// What the ranks tell each other besides tensors: where each stands, that one was asked to stop, that one is gone. A
// thread of its own and a connection of its own (to rank 0's ControlServer): a blocked collective blocks neither, and
// when the run cannot go on the thread reports and ends the process, whatever the main thread hangs in.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "data/pipeline/quarantine.h"
#include "trainer/control/control_server.h"
#include "trainer/control/join.h"
#include "trainer/control/position.h"
#include "trainer/report/error_report.h"

namespace dtrain::distributed {

struct ControlPlaneOptions {
  int rank = 0;
  int world_size = 1;
  double comm_timeout_seconds = 600;  // without a sign of rank 0: the run is over
  // Whether this process was asked to stop. Called on the control plane's thread.
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  // Reports the failure and ends the process. Called on the control plane's thread, once.
  std::function<void(const report::Failure&)> end_process;
};

// Methods are for the main thread, but where they say otherwise. A run of one rank has no thread and no connection.
class ControlPlane {
 public:
  // One rank.
  explicit ControlPlane(std::function<bool()> stop_requested);
  // Several. `server` is rank 0's, null on the others.
  ControlPlane(ControlPlaneOptions options, Joined joined, std::unique_ptr<ControlServer> server);
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // Waits until all ranks are here and have said so. `config` is a JSON object, compared key by key. Throws, on every
  // rank alike, UsageError naming a key that differs, PeerLostError naming the ranks that are missing, Preempted.
  void WaitForAll(const std::string& config);

  // The phases of training, in the same order on all ranks; an atomic store.
  void Enter(Phase phase);
  // To be called at the same points by all ranks: the end of a step, of an evaluation batch. True: a stop was asked for
  // somewhere, and all ranks stop at this very point. Costs an atomic load, unless a stop is being agreed on.
  bool StopsHere(int64_t steps_done);

  // A bad record that this rank has not met before. Where all ranks together are over the budget they all end with exit
  // code 3. Any thread.
  void NoteBadRecord(const data::BadRecord& record, int64_t dataset_size, const data::QuarantineOptions& options);
  // Of all ranks, as last heard.
  int64_t bad_records(const std::string& split);

  // The orderly end: returns when all ranks have come to it.
  void Leave();

  // Before the process ends with `failure`: tells the others, or learns from them that it is only a consequence.
  // Returns what to report. Does not return when the control plane's thread ends the process.
  report::Failure LastWords(report::Failure failure);

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  void Run(const std::stop_token& stop);
  std::optional<report::Failure> Converse(const std::stop_token& stop);
  void Wait();
  void Handle(const nlohmann::json& message);
  void HandleProposal(int64_t point);
  std::optional<report::Failure> Watch(Clock::time_point now);
  void End(report::Failure failure, int root_rank);
  void TakeTheEnd(std::unique_lock<std::mutex>& lock);
  void Post(const std::string& line);
  void SendPosted();
  Position Here() const;

  const ControlPlaneOptions options_;
  const std::unique_ptr<ControlServer> server_;

  // Where the main thread stands.
  std::atomic<int64_t> point_ = 0, moves_ = 0, step_ = 0, work_nanoseconds_ = 0;
  std::atomic<Phase> phase_ = Phase::kStarting;
  Clock::time_point phase_start_;             // the main thread's
  std::atomic<int64_t> stop_point_ = kNever;  // proposed, or committed

  // The thread's.
  LineSocket socket_;
  Clock::time_point heard_, last_tick_;
  Position first_rank_;  // as last heard
  bool stop_sent_ = false, silence_told_ = false;
  int wake_descriptor_ = -1;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string posted_;      // lines for the thread to send
  bool going_ = false;      // all ranks are here
  bool committed_ = false;  // stop_point_ is
  bool all_left_ = false;
  bool all_know_ = false;                       // that the run is over
  std::map<std::string, int64_t> bad_records_;  // by split
  std::optional<report::Failure> end_;          // why the run is over
  bool main_ends_ = false;                      // the main thread ends the process with a failure of its own
  bool main_is_victim_ = false;                 // it has only lost a peer: the thread may know why
  bool thread_ends_ = false;                    // the thread ends the process
  bool ended_ = false;
  std::jthread thread_;  // last: starts when everything above is ready
};

}  // namespace dtrain::distributed
