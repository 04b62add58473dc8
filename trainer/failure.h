// Turns exceptions, and other ways in which a process fails, into a report and an exit code, for both executables.
#pragma once

#include <exception>
#include <functional>

#include "trainer/report/error_report.h"

namespace dtrain {

// Returns message, hint and exit code of `error`; the caller adds rank and step. An exception other than dtrain::Error
// is classified by type and message: out of memory, lost peer, storage, a GPU without kernels in this build, or
// internal.
report::Failure FailureOf(const std::exception& error);

// From now on LibTorch's errors have no stack traces, which c10d would log for every lost or foreign connection.
void OmitStackTraces();

// From now on an exception that no thread catches is passed to `report`, on the thread that threw it, and the process
// ends with the code that `report` returns. c10d's watchdog of NCCL throws on its own thread when a peer is lost, while
// the main thread waits for a GPU that will never answer; destructors do not run, since they would wait, too. Called
// once per process.
void ReportOnTerminate(std::function<int(const std::exception&)> report);

// While an object of this class lives, an exit() that a library calls counts as a failure: libgomp ends the process
// with 1 if it cannot start a thread. The failure is passed to `report`, and the process ends with the code that
// `report` returns. There may be one object at a time.
class OwnExit {
 public:
  explicit OwnExit(std::function<int(const std::exception&)> report);
  ~OwnExit();
  OwnExit(const OwnExit&) = delete;
  OwnExit& operator=(const OwnExit&) = delete;
};

}  // namespace dtrain
