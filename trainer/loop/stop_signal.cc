// The handler only sets a flag, and is gone after its first use: whoever sends a second signal means it.
#include "trainer/loop/stop_signal.h"

#include <csignal>

namespace dtrain::loop {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

}  // namespace

void CatchStopSignals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
}

bool StopRequested() { return stop_requested != 0; }

}  // namespace dtrain::loop
