// SIGTERM, SIGINT and SIGUSR1 ask for an orderly stop: save, then exit with 75.
#pragma once

namespace dtrain::loop {

// From now on the first such signal is remembered; the second one of a kind ends the process at once.
void CatchStopSignals();

bool StopRequested();

}  // namespace dtrain::loop
