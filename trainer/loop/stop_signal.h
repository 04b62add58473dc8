// SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and, unless nohup ignores it, SIGHUP ask for an orderly stop: the run saves, then
// exits with 75. So does the time of StopAfter.
#pragma once

#include <chrono>

namespace dtrain::loop {

// From now on the first of these signals makes StopRequested return true; a second one of the same kind, but SIGHUP,
// ends the process at once. Until StopsAreOrderly is called there is nothing to save, so a process that is still alive
// `patience_seconds` after the signal, whatever it hangs in, ends with 75. Called on the main thread.
void CatchStopSignals(unsigned patience_seconds = 20);

// Called at the end of every step: from the first one on the loop itself handles stops. May be called repeatedly.
void StopsAreOrderly();

// From then on StopRequested returns true, in forked processes, too.
void StopAfter(std::chrono::duration<double> time);

// Whether one of the signals or that time has come. Any thread.
bool StopRequested();

}  // namespace dtrain::loop
