// From an exception to an exit code: the last thing that both executables do.
#pragma once

#include <exception>

#include "trainer/report/error_report.h"

namespace dtrain {

// Message, hint and exit code; rank and step are the caller's to add. What is no dtrain::Error is out of memory or
// internal.
report::Failure FailureOf(const std::exception& error);

}  // namespace dtrain
