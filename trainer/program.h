// The name, the first and the last lines of both programs: the process's limits and signals, and a report of what goes
// wrong.
#pragma once

#include <exception>
#include <functional>

namespace dtrain {

// The name under which the program is built. Its main file defines it.
extern const char* const kProgramName;

// Prepares the process and returns what `body` returns, the exit code. What `body` throws, and every other way in which
// the process fails (failure.h), is passed to `report`, which returns the exit code, too. Called once per process.
int RunProgram(const std::function<int()>& body, const std::function<int(const std::exception&)>& report);

}  // namespace dtrain
