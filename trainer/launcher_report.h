// The node launcher's report of a failed attempt: the rank that failed first, and the end of its log.
#pragma once

#include <filesystem>

#include "trainer/launch/node_launcher.h"

namespace dtrain {

// Reports on stderr. For a rank that a signal has killed, which cannot report itself, also writes error.json in
// `run_directory`, unless that is empty.
void ReportAttempt(const launch::AttemptEnd& end, int world_size, const std::filesystem::path& run_directory);

}  // namespace dtrain
