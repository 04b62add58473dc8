// The handler only sets a flag, and a second signal of the same kind ends the process. Before the first step an alarm
// ends a process that hangs. It needs no thread and no descriptor, whose lack may be the cause.
#include "trainer/loop/stop_signal.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <string_view>

#include "data/error.h"
#include "data/signals.h"

namespace dtrain::loop {
namespace {

// The handler may run on any thread, and the control plane's thread reads: a sig_atomic_t would be a data race.
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait for a lock");
std::atomic<bool> stop_requested = false;
std::atomic<bool> is_orderly = false;
std::atomic<uint64_t> kinds_seen = 0;  // a bit for each
std::atomic<std::chrono::steady_clock::time_point> stop_time = std::chrono::steady_clock::time_point::max();
unsigned patience = 0;

void OnHangUp(int /*signal*/) {
  stop_requested = true;
  if (!is_orderly) alarm(patience);
}

void OnStop(int signal) {
  const uint64_t kind = uint64_t{1} << static_cast<unsigned>(signal);
  if ((kinds_seen.fetch_or(kind) & kind) != 0) EndBySignal(signal);
  OnHangUp(signal);
}

void OnAlarm(int /*signal*/) {
  if (is_orderly) return;
  constexpr std::string_view kText = "dtrain stopped (preempted, exit code 75) before the first step was done\n";
  [[maybe_unused]] const ssize_t best_effort = write(STDERR_FILENO, kText.data(), kText.size());
  _exit(static_cast<int>(ExitCode::kPreempted));
}

}  // namespace

void CatchStopSignals(unsigned patience_seconds) {
  is_orderly = false;
  patience = patience_seconds;
  HandleSignal(SIGALRM, &OnAlarm);
  for (const int signal : kStopSignals) HandleSignal(signal, &OnStop);
  // At the end of a login, shell and kernel send one each, and that is no second request.
  if (!IsIgnored(SIGHUP)) HandleSignal(SIGHUP, &OnHangUp);
}

void StopsAreOrderly() { is_orderly = true; }

void StopAfter(std::chrono::duration<double> time) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::duration<double> kMost = std::chrono::hours(24 * 365);  // what a clock's ticks can hold
  stop_time = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::min(time, kMost));
}

bool StopRequested() { return stop_requested || std::chrono::steady_clock::now() >= stop_time.load(); }

}  // namespace dtrain::loop
