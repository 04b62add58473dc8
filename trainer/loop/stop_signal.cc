// The handler only sets a flag, and is removed after its first use, so that a second signal ends the process. Before
// the first step an alarm ends a process that hangs. It needs no thread and no descriptor, whose lack may be the cause.
//
// It has a stack of its own on the main thread, which the kernel prefers for signals and which computes: oneDNN's
// products (jit_avx512_common_gemm_f32) let the stack pointer point into a buffer on the heap, and a handler's frame
// there would overwrite what lies before it.
#include "trainer/loop/stop_signal.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <string_view>

#include "data/error.h"

namespace dtrain::loop {
namespace {

// The handler may run on any thread, and the control plane's thread reads: a sig_atomic_t would be a data race.
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait for a lock");
std::atomic<bool> stop_requested = false;
std::atomic<bool> is_orderly = false;
std::atomic<std::chrono::steady_clock::time_point> stop_time = std::chrono::steady_clock::time_point::max();
unsigned patience = 0;
alignas(64) std::array<char, 256 * 1024> handlers_stack;  // a frame with AMX's registers has 11 KiB

void OnStop(int /*signal*/) {
  stop_requested = true;
  if (!is_orderly) alarm(patience);
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
  stack_t stack{};
  stack.ss_sp = handlers_stack.data();
  stack.ss_size = handlers_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = &OnAlarm;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGALRM, &action, nullptr);
  action.sa_handler = &OnStop;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART | SA_ONSTACK);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  // At the end of a login, shell and kernel send one each, and that is no second request. nohup ignores them.
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

void StopsAreOrderly() { is_orderly = true; }

void StopAfter(std::chrono::duration<double> time) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::duration<double> kMost = std::chrono::hours(24 * 365);  // what a clock's ticks can hold
  stop_time = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::min(time, kMost));
}

bool StopRequested() { return stop_requested || std::chrono::steady_clock::now() >= stop_time.load(); }

}  // namespace dtrain::loop
