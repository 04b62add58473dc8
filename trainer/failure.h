// How both programs begin and end: the process's limits and signals, and every failure as a report and an exit code.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>

#include "trainer/launch/node_launcher.h"
#include "trainer/report/error_report.h"

namespace dtrain {

// Returns message, hint and exit code of `error`; the caller adds rank and step. An exception other than dtrain::Error
// is classified by type and message: out of memory, lost peer, storage, a GPU without kernels in this build, or
// internal.
report::Failure FailureOf(const std::exception& error);

// Prepares the process and returns what `body` returns, the exit code. What `body` throws is passed to `report`, which
// returns the exit code, too. So are the other ways in which the process fails, on the thread on which they do: an
// exception that no thread catches, and an exit() that a library calls. No destructors run then, since they would wait,
// too. Called once per process.
int RunProgram(const std::function<int()>& body, const std::function<int(const std::exception&)>& report);

// The node launcher's report of a failed attempt, on stderr: the rank that failed first, and the end of its log. For a
// rank that a signal has killed, which cannot report itself, also writes error.json in `run_directory`, unless that is
// empty. `as_json` is Failure::as_json.
void ReportAttempt(const launch::AttemptEnd& end, int world_size, const std::filesystem::path& run_directory,
                   bool as_json);

}  // namespace dtrain
