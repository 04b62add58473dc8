// The node launcher: one process forks the ranks of this machine, watches over them, starts them again if it may, and
// ends with their root cause.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

// How a local rank ended that did not end well.
struct RankDeath {
  int rank = 0;       // among all
  int exit_code = 0;  // 4 where a signal killed it
  int signal = 0;     // which one; 0: it ended by itself
};

// A failed attempt, when all its ranks are gone.
struct AttemptEnd {
  RankDeath cause;         // the first death that was no consequence of another
  int64_t last_step = -1;  // steps done; -1: training had not begun
  bool restarts = false;
  std::string verdict;  // why the ranks are started again, or are not; may be empty
};

struct NodeLauncherOptions {
  int max_restarts = 0;
  std::function<void(const RankDeath&)> on_death;     // at once, in the parent, before the other ranks are killed
  std::function<void(const AttemptEnd&)> on_failure;  // after each failed attempt, in the parent
};

// What a process is after ForkLocalRanks.
struct Forked {
  bool is_rank = false;           // true in a child
  Launch launch;                  // a child's
  int listen_fd = -1;             // of rank 0 on a single machine: an open socket for its store
  std::shared_ptr<int64_t> step;  // a child's: where it keeps its number of steps done, which the parent reads
  int exit_code = 0;              // of the parent: 0, or the root cause's; 4 for a rank killed by a signal
};

// Forks launch.spawns ranks. On a single machine they meet at a loopback port that is already open (no other process
// can take it) and share a random token that nobody else knows, on several ones at the master address. Must be called
// before any thread is started. Returns in every child at once, and in the parent when all is over: SIGTERM, SIGINT and
// SIGUSR1 are passed on to the ranks (the second of a kind ends all at once, the parent by that signal, too), the first
// failure ends all within a second, and no rank outlives the parent. launch.restart_count counts the attempts that came
// to train.
Forked ForkLocalRanks(const Launch& launch, const NodeLauncherOptions& options = {});

// From now on this process is killed when its parent is. For torchrun's ranks: a killed agent would leave them running.
void EndWithParent();

}  // namespace dtrain::launch
