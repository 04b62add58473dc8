// From an exception to an exit code: the last thing that both executables do.
#pragma once

#include <exception>
#include <functional>

#include "trainer/report/error_report.h"

namespace dtrain {

// Message, hint and exit code; rank and step are the caller's to add. What is no dtrain::Error is out of memory, a lost
// peer, a GPU that the kernels were not compiled for, or internal.
report::Failure FailureOf(const std::exception& error);

// From now on an exception that no thread catches is given to `report`, and the process ends with the code that it
// returns. c10d's watchdog of NCCL throws in a thread of its own when a peer is lost, while the main thread waits for a
// GPU that will never answer: destructors are not run, they would wait, too. Once per process.
void ReportOnTerminate(std::function<int(const std::exception&)> report);

// While one lives, an exit() that a library calls is a failure, too: libgomp ends the process with 1 where a thread
// cannot be started. It is given to `report`, and the process ends with the code that it returns. One at a time.
class OwnExit {
 public:
  explicit OwnExit(std::function<int(const std::exception&)> report);
  ~OwnExit();
  OwnExit(const OwnExit&) = delete;
  OwnExit& operator=(const OwnExit&) = delete;
};

}  // namespace dtrain
