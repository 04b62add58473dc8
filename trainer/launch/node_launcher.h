// The node launcher: one process forks the ranks of this machine, watches over them, and ends with their root cause.
#pragma once

#include "trainer/launch/launch.h"

namespace dtrain::launch {

// What a process is after ForkLocalRanks.
struct Forked {
  bool is_rank = false;  // true in a child
  Launch launch;         // a child's
  int listen_fd = -1;    // of the child with rank 0: an open socket for its store
  int exit_code = 0;     // of the parent: 0, or the root cause's; 4 for a rank killed by a signal
};

// Forks launch.spawns ranks, which meet at a loopback port that is already open (no other process can take it). Must be
// called before any thread is started. Returns in every child at once, and in the parent when all children have ended:
// signals are passed on to them, the first failure ends them all within a second, and they do not outlive the parent.
Forked ForkLocalRanks(const Launch& launch);

}  // namespace dtrain::launch
