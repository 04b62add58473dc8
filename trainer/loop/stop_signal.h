// SIGTERM, SIGINT and SIGUSR1 ask for an orderly stop: save, then exit with 75.
#pragma once

namespace dtrain::loop {

// From now on the first such signal is remembered; the second one of a kind ends the process at once. Until
// StopsAreOrderly nothing has been done that could be saved: a process that hangs then, in whatever, ends with 75
// `patience_seconds` after the signal.
void CatchStopSignals(unsigned patience_seconds = 20);

// From the end of the first step on. May be called again.
void StopsAreOrderly();

bool StopRequested();

}  // namespace dtrain::loop
