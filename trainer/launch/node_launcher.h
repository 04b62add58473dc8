// The node launcher: one process forks the ranks of this machine, watches over them, restarts them after a failure if
// --max_restarts allows it, and exits with the code of the root cause.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

// Decides whether the local ranks are restarted after a failure.
class RestartPolicy {
 public:
  explicit RestartPolicy(int max_restarts) : max_restarts_(max_restarts) {}

  struct Verdict {
    bool restart = false;
    std::string reason;  // for the user; empty if no restart was asked for
  };

  // Called when an attempt has failed with `exit_code` after `last_step` steps (-1: training had not begun). There is
  // no restart after a failure that would recur (data/error.h), nor after three restarts in a row that got no
  // further.
  Verdict AfterFailure(int exit_code, int64_t last_step);

  int restarts() const { return restarts_; }

 private:
  int max_restarts_;
  int restarts_ = 0;
  int without_progress_ = -1;  // failures since the furthest step was reached; -1: no failure yet
  int64_t furthest_step_ = -1;
};

// What a rank says of itself while it lives.
struct RankState {
  int64_t step = -1;  // steps done; -1: not training (yet)
  int exit_code = 0;  // of the failure of its own that ends it; counts if it is killed before it has ended
  int cause = 0;      // exit code of the rank, perhaps of another machine, whose failure ends this one; 0: unknown
};

// The end of a local rank that failed.
struct RankDeath {
  int rank = 0;       // among all ranks of the run
  int exit_code = 0;  // 4 if a signal killed it
  int signal = 0;     // the signal that killed it; 0: it exited by itself
};

// The end of a failed attempt, after all its ranks have ended.
struct AttemptEnd {
  RankDeath cause;         // the root cause: the first death that is not the consequence of another
  int64_t last_step = -1;  // steps done; -1: training had not begun
  RestartPolicy::Verdict verdict = {};
};

struct NodeLauncherOptions {
  int max_restarts = 0;
  std::function<void(const RankDeath&)> on_death;     // called in the parent at once, before other ranks are killed
  std::function<void(const AttemptEnd&)> on_failure;  // called in the parent after each failed attempt
};

// The result of ForkLocalRanks: this process is now a rank, or the parent of ranks that have ended.
struct Forked {
  bool is_rank = false;              // true in a child, which is a rank
  Launch launch;                     // of a child
  int listen_fd = -1;                // of rank 0 of a single machine: the open socket that it listens on; else -1
  std::shared_ptr<RankState> state;  // of a child: memory that the parent reads
  int exit_code = 0;                 // of the parent: 0, or that of the root cause (4 for a rank killed by a signal)
};

// Forks launch.spawns ranks. Must be called before any thread is started. On a single machine the ranks meet at a
// loopback port that is already open, so that no other process can take it, and share a random token; on several
// machines they meet at the master address. Returns in every child at once, and in the parent after all ranks have
// ended. The parent passes SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP on to the ranks as an order to stop; the second
// signal of a kind kills them all, and the parent dies of it, too. The first failure ends the other ranks within a
// second, and no rank outlives the parent. launch.restart_count of a child grows with each attempt that had begun to
// train. Throws UsageError if a rank cannot be forked.
Forked ForkLocalRanks(const Launch& launch, const NodeLauncherOptions& options = {});

// From now on the system kills this process when its parent dies. For torchrun's ranks, which a killed agent would
// leave running.
void EndWithParent();

}  // namespace dtrain::launch
