// The control plane: through it ranks tell each other everything but tensors, such as how far each one is, that one was
// asked to stop, or that one is gone. It has its own thread and its own connection to rank 0's ControlServer, so a
// blocked collective blocks neither. If the run cannot go on, the control plane's thread reports the failure and ends
// the process, even if the main thread hangs.
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

#include "data/machine/thread.h"
#include "data/pipeline/quarantine.h"
#include "trainer/control/control_server.h"
#include "trainer/control/join.h"
#include "trainer/control/stall_watch.h"
#include "trainer/report/error_report.h"

namespace dtrain::control {

struct ControlPlaneOptions {
  int rank = 0;
  int world_size = 1;
  double comm_timeout_seconds = 600;  // the run ends if rank 0 is silent for this long
  // Whether this process was asked to stop. Called on the control plane's thread and on the main thread.
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void(const std::string&)> warn = [](const std::string&) {};  // called on the control plane's thread
  // Called on the control plane's thread with the exit code of another rank, whose failure ends this one, too.
  std::function<void(int exit_code)> note_cause = [](int) {};
  // Reports the failure and ends the process. Called on the control plane's thread, once.
  std::function<void(const report::Failure&)> end_process;
};

// Methods are called on the main thread unless they say otherwise. A run of one rank has no thread and no connection.
class ControlPlane {
 public:
  // For a run of one rank.
  explicit ControlPlane(std::function<bool()> stop_requested);
  // For a run of several ranks; starts the thread. `server` is null on all ranks but rank 0.
  ControlPlane(ControlPlaneOptions options, Joined joined, std::unique_ptr<ControlServer> server);
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // Waits until all ranks are ready. `config` is a JSON object; rank 0's control server compares it key by key with
  // rank 0's. All ranks throw the same error: UsageError naming a key that differs, PeerLostError naming the missing
  // ranks, Preempted if a rank was asked to stop, or Error with the exit code that the server sent.
  void WaitForAll(const std::string& config);

  // Announces the phase that the main thread enters. All ranks go through the same phases in the same order. Costs a
  // few atomic operations.
  void Enter(Phase phase);
  // Called by all ranks at the same points: the end of each step and of each evaluation batch. Returns true if a rank
  // was asked to stop; it then returns true at the same point on all ranks. Costs a few atomic operations, but waits
  // for the other ranks while they agree on a stop.
  bool StopsHere(int64_t steps_done);

  // Where this rank is. Any thread.
  Position position() const;
  // Whether this rank saves, or rank 0, for which the others then wait. Any thread.
  bool awaits_save() const { return phase_ == Phase::kSaving || first_saves_; }

  // Reports a bad record, once per record and rank. If all ranks together exceed the budget, they all end with exit
  // code 3. Any thread.
  void NoteBadRecord(const data::BadRecord& record, int64_t dataset_size, const data::QuarantineOptions& options);
  // The number of bad records of all ranks together, as of the last message from rank 0. Any thread.
  int64_t bad_records(const std::string& split);

  // Announces the orderly end of this rank, and returns when all ranks have done so or the run has failed.
  void Leave();

  // Called before the process ends with `failure`. Tells the other ranks of it, or learns from them that it is only a
  // consequence of another rank's failure. Returns the failure to report; does not return if the control plane's thread
  // is ending the process already.
  report::Failure SettleFailure(report::Failure failure);

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  void Run(const std::stop_token& stop);
  std::optional<report::Failure> ServeConnection(const std::stop_token& stop);
  void Wait();
  void Handle(const nlohmann::json& message);
  void HandleProposal(int64_t point);
  std::optional<report::Failure> Watch(Clock::time_point now);
  void End(report::Failure failure, int root_rank);
  void LetMainThreadEnd(std::unique_lock<std::mutex>& lock);
  void Post(const std::string& line);
  void SendPosted();

  const ControlPlaneOptions options_;
  const std::unique_ptr<ControlServer> server_;

  // The main thread's position, which only that thread writes; the control plane's thread reads it.
  std::atomic<int64_t> point_ = 0, moves_ = 0, step_ = 0, work_nanoseconds_ = 0;
  std::atomic<Phase> phase_ = Phase::kStarting;
  std::atomic<bool> first_saves_ = false;     // rank 0 saves, as of its last message
  Clock::time_point phase_start_;             // used by the main thread alone
  std::atomic<int64_t> stop_point_ = kNever;  // the proposed or committed point; written by the control plane's thread

  // Used by the control plane's thread alone, except for wake_descriptor_.
  LineSocket socket_;
  const std::string first_place_;        // where rank 0 was reached, for messages
  Clock::time_point heard_, last_tick_;  // when rank 0 last sent something; when Watch last ran
  Position first_rank_;                  // rank 0's position, as of its last message
  bool stop_sent_ = false, silence_told_ = false;
  int wake_descriptor_ = -1;  // an eventfd that wakes the control plane's thread from poll()

  std::mutex mutex_;  // guards all members below but thread_
  std::condition_variable changed_;
  std::string posted_;                          // lines for the thread to send
  bool going_ = false;                          // all ranks are ready
  bool committed_ = false;                      // stop_point_ is final
  bool all_left_ = false;                       // all ranks have announced their orderly end
  bool all_know_ = false;                       // the server has told all ranks that the run is over
  std::map<std::string, int64_t> bad_records_;  // by split
  std::optional<report::Failure> end_;          // why the run is over; empty while it goes on
  bool main_ends_ = false;                      // the main thread ends the process
  bool main_is_victim_ = false;                 // the main thread has lost a peer, and the thread may learn why
  bool thread_ends_ = false;                    // the control plane's thread ends the process
  bool ended_ = false;                          // end_process has returned
  data::Thread thread_;                         // declared last, so that it starts when everything above is ready
};

}  // namespace dtrain::control
