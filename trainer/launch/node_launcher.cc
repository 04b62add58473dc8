// Ranks are forked without exec, so that they start with all libraries loaded. The parent never calls torch.
#include "trainer/launch/node_launcher.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <map>
#include <new>
#include <optional>

#include "data/signals.h"
#include "trainer/errors.h"
#include "trainer/launch/local_address.h"
#include "trainer/launch/run_token.h"

namespace dtrain::launch {
namespace {

constexpr int kMostWithoutProgress = 3;

// Not so exit code 7: another process may have freed memory. (A cluster's job has its machines to itself:
// scripts/aws/batch/job_definition.py.)
bool WouldComeAgain(int exit_code) {
  const ExitCodeFacts* facts = FindExitCode(exit_code);
  return facts != nullptr && facts->would_recur;
}

std::string At(int64_t step) { return step < 0 ? "before training began" : "at step " + std::to_string(step); }

constexpr int64_t kGraceMs = 30'000;      // after a rank has stopped in an orderly way, for the others to do so
constexpr int64_t kFailureGraceMs = 800;  // after a failure, for the other ranks to notice and report it
constexpr int kPeerLost = static_cast<int>(ExitCode::kPeerLost);
constexpr int kPreempted = static_cast<int>(ExitCode::kPreempted);

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int signal : kStopSignals) sigaddset(&signals, signal);
  if (!IsIgnored(SIGHUP)) sigaddset(&signals, SIGHUP);
  return signals;
}

int64_t MonotonicMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1'000'000;
}

// Returns memory that parent and ranks share.
std::shared_ptr<RankState> SharedStates(int count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(RankState);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<RankState*>(memory), [bytes](RankState* states) { munmap(states, bytes); }};
}

// Blocks the watched signals during its lifetime, so that sigtimedwait receives them. Afterwards, also after an
// exception, they are delivered again: a signal must end the process whatever it hangs in.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    const sigset_t watched = WatchedSignals();
    sigprocmask(SIG_BLOCK, &watched, &previous_);
  }
  ~SignalsBlocked() { sigprocmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  const sigset_t& previous() const { return previous_; }

 private:
  sigset_t previous_{};
};

// The requests to stop that the launcher has received so far.
struct StopRequests {
  std::map<int, int> counts;  // by signal
  int last = 0;               // the last signal; 0: none yet
  bool at_once = false;       // a signal has come twice: the ranks are killed
};

// Returns the signal by which the launcher asks ranks to stop after it got `signal`. A scheduler may have signalled the
// ranks as well (scancel does), and a second signal of the same kind would end them at once, so another kind is used.
int AskedOfRanks(int signal) { return signal == SIGUSR1 ? SIGTERM : SIGUSR1; }

// Watches the ranks of one attempt, in the parent.
class Watch {
 public:
  // `states` are those of ranks `first_rank` and up.
  Watch(std::map<pid_t, int> ranks, const RankState* states, int first_rank, const NodeLauncherOptions& options,
        StopRequests& stops)
      : ranks_(std::move(ranks)), states_(states), first_rank_(first_rank), options_(options), stops_(stops) {}

  // Waits until all ranks have ended. Returns the root cause; empty if all have exited with 0.
  std::optional<RankDeath> UntilAllEnded() {
    const sigset_t signals = WatchedSignals();
    while (!ranks_.empty()) {
      const timespec tick{0, 50'000'000};
      const int signal = sigtimedwait(&signals, nullptr, &tick);
      if (signal > 0 && signal != SIGCHLD) PassOn(signal);
      Reap();
      if (MonotonicMs() >= deadline_ms_) SignalAll(SIGKILL);
    }
    return cause_;
  }

 private:
  void SignalAll(int signal) {
    for (const auto& [pid, rank] : ranks_) kill(pid, signal);
  }

  // Ranks are asked once, since a second request would end them. A second signal of a kind kills them, but for SIGHUP:
  // at the end of a login, shell and kernel send one each.
  void PassOn(int signal) {
    const bool are_asked = stops_.last != 0;
    stops_.last = signal;
    stops_.at_once = stops_.at_once || (signal != SIGHUP && ++stops_.counts[signal] > 1);
    if (stops_.at_once) deadline_ms_ = 0;
    if (!are_asked) SignalAll(AskedOfRanks(signal));
  }

  void Reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = ranks_.find(pid);
      if (found == ranks_.end()) continue;
      const int rank = found->second;
      ranks_.erase(found);
      const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      const bool killed_by_us = signal == SIGKILL && MonotonicMs() >= deadline_ms_;
      const int code = signal != 0 ? kPeerLost : WEXITSTATUS(status);
      if (killed_by_us) {
        // On a busy machine its victims may have ended before it, however soon it told them.
        if (const int own = states_[rank - first_rank_].exit_code; own != 0) Note({rank, own, 0});
      } else if (code != 0) {
        Note({rank, code, signal});
      }
    }
  }

  // The death with the largest weight is the root cause; of several the first. Exit code 4 is the consequence of
  // another rank's failure, 75 of a request to stop. A death by a signal weighs more, and any other code most.
  static int Weight(const RankDeath& death) {
    if (death.signal != 0) return 2;
    if (death.exit_code == kPeerLost) return 0;
    return death.exit_code == kPreempted ? 1 : 3;
  }

  void Note(const RankDeath& death) {
    if (options_.on_death) options_.on_death(death);
    if (!cause_ || Weight(death) > Weight(*cause_)) cause_ = death;
    const bool orderly = death.exit_code == kPreempted;
    deadline_ms_ = std::min(deadline_ms_, MonotonicMs() + (orderly ? kGraceMs : kFailureGraceMs));
  }

  std::map<pid_t, int> ranks_;
  const RankState* states_;
  int first_rank_;
  const NodeLauncherOptions& options_;
  StopRequests& stops_;
  std::optional<RankDeath> cause_;
  int64_t deadline_ms_ = INT64_MAX;  // when the ranks that are still alive are killed
};

// Makes a child die with its parent, and spares it the terminal's Ctrl-C, which the parent passes on.
void BecomeChild(pid_t parent, const sigset_t& previous_mask) {
  EndWithParent();
  if (getppid() != parent) _exit(kPeerLost);
  setpgid(0, 0);
  std::signal(SIGTTOU, SIG_IGN);  // "stty tostop" would stop whoever is not in the terminal's own group
  sigprocmask(SIG_SETMASK, &previous_mask, nullptr);
}

Launch LaunchOfLocalRank(const Launch& launch, int local_rank, int port) {
  Launch child = launch;
  child.local_rank = local_rank;
  child.rank = launch.rank + local_rank;
  child.spawns = 0;
  child.forked = true;
  if (launch.nnodes == 1) {
    child.master_addr = "127.0.0.1";
    child.master_port = port;
    child.address_key.clear();
  }
  return child;
}

// Forks the ranks of one attempt and returns them in the parent: rank by process id. In a child it fills in `*forked`,
// and the result has no meaning.
std::map<pid_t, int> Fork(const Launch& launch, const std::shared_ptr<RankState>& states, const sigset_t& previous_mask,
                          Forked* forked) {
  const int listen_fd = launch.nnodes == 1 ? ListenOn("127.0.0.1", /*port=*/0) : -1;
  const int port = listen_fd < 0 ? 0 : PortOf(listen_fd);
  const pid_t parent = getpid();
  std::map<pid_t, int> ranks;
  for (int local_rank = 0; local_rank < launch.spawns; ++local_rank) {
    const pid_t pid = fork();
    if (pid < 0) {
      const int error = errno;
      for (const auto& [child, rank] : ranks) kill(child, SIGKILL);
      throw UsageError("cannot start local rank " + std::to_string(local_rank) + ": " + std::strerror(error),
                       "lower --nproc_per_node, or raise the limit on processes (ulimit -u)");
    }
    if (pid > 0) {
      ranks[pid] = launch.rank + local_rank;
      continue;
    }
    BecomeChild(parent, previous_mask);
    forked->is_rank = true;
    forked->launch = LaunchOfLocalRank(launch, local_rank, port);
    forked->state = std::shared_ptr<RankState>(states, states.get() + local_rank);
    if (forked->launch.rank == 0) forked->listen_fd = listen_fd;
    if (forked->launch.rank != 0 && listen_fd >= 0) close(listen_fd);
    return {};
  }
  if (listen_fd >= 0) close(listen_fd);
  return ranks;
}

// Whether a signal that asks to stop has killed a rank before the rank could catch it. It then had nothing to save.
bool DiedOfRequest(const RankDeath& cause, const StopRequests& stops) {
  const sigset_t asking = WatchedSignals();
  return stops.last != 0 && cause.signal != 0 && cause.signal != SIGCHLD && sigismember(&asking, cause.signal) == 1;
}

}  // namespace

RestartPolicy::Verdict RestartPolicy::AfterFailure(int exit_code, int64_t last_step) {
  if (max_restarts_ == 0 || exit_code == 0 || exit_code == kPreempted) return {};
  const bool progress = without_progress_ < 0 || last_step > furthest_step_;
  without_progress_ = progress ? 0 : without_progress_ + 1;
  if (progress) furthest_step_ = last_step;
  if (WouldComeAgain(exit_code)) {
    return {false, "not started again: exit code " + std::to_string(exit_code) + " would only occur again"};
  }
  if (without_progress_ >= kMostWithoutProgress) {
    return {false, "a crash loop: " + std::to_string(kMostWithoutProgress) +
                       " restarts in a row made no progress; the run ends " + At(furthest_step_)};
  }
  if (restarts_ >= max_restarts_) {
    return {false, "not started again: all --max_restarts=" + std::to_string(max_restarts_) + " are used up, " +
                       At(last_step)};
  }
  ++restarts_;
  return {true, "starting the local ranks again from the last checkpoint (restart " + std::to_string(restarts_) +
                    " of at most " + std::to_string(max_restarts_) + ")"};
}

void EndWithParent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

Forked ForkLocalRanks(const Launch& launch, const NodeLauncherOptions& options) {
  std::signal(SIGCHLD, SIG_DFL);  // a parent that ignores it hands that on, and the ends of ranks would be lost
  const SignalsBlocked blocked;
  const auto states = SharedStates(launch.spawns);
  RestartPolicy policy(options.max_restarts);
  StopRequests stops;
  Launch attempt = launch;
  while (true) {
    std::fill_n(states.get(), launch.spawns, RankState{});
    Forked forked;
    // The ranks of a single machine inherit their token by being forked. Each attempt has a new one.
    if (attempt.nnodes == 1) attempt.token = RandomToken();
    auto ranks = Fork(attempt, states, blocked.previous(), &forked);
    if (forked.is_rank) return forked;
    const auto cause = Watch(std::move(ranks), states.get(), launch.rank, options, stops).UntilAllEnded();
    if (stops.at_once || (cause && DiedOfRequest(*cause, stops))) EndBySignal(stops.last);
    if (!cause) return forked;
    forked.exit_code = cause->exit_code;
    const auto less = [](const RankState& one, const RankState& other) { return one.step < other.step; };
    AttemptEnd end{*cause, std::max_element(states.get(), states.get() + launch.spawns, less)->step};
    const int peers = cause->exit_code == kPeerLost ? states.get()[cause->rank - launch.rank].cause : 0;
    if (stops.last == 0) end.verdict = policy.AfterFailure(peers != 0 ? peers : cause->exit_code, end.last_step);
    if (options.on_failure && cause->exit_code != kPreempted) options.on_failure(end);
    if (!end.verdict.restart) return forked;
    if (end.last_step >= 0) ++attempt.restart_count;
  }
}

}  // namespace dtrain::launch
