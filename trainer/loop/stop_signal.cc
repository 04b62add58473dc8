// The handler only sets a flag, and is removed after its first use, so that a second signal ends the process. Before
// the first step an alarm ends a process that hangs. It needs no thread and no descriptor, whose lack may be the cause.
#include "trainer/loop/stop_signal.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "data/error.h"

namespace dtrain::loop {
namespace {

volatile std::sig_atomic_t stop_requested = 0;
volatile std::sig_atomic_t is_orderly = 0;
unsigned patience = 0;

void OnStop(int /*signal*/) {
  stop_requested = 1;
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
  is_orderly = 0;
  patience = patience_seconds;
  struct sigaction action {};
  action.sa_handler = &OnAlarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  action.sa_handler = &OnStop;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
}

void StopsAreOrderly() { is_orderly = 1; }

bool StopRequested() { return stop_requested != 0; }

}  // namespace dtrain::loop
