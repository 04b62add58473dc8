// What the node launcher tells of a failed attempt: the rank that failed first, and the end of its log.
#pragma once

#include <filesystem>

#include "trainer/launch/node_launcher.h"

namespace dtrain {

// On stderr; and for a rank that a signal has killed, which cannot report itself, the run directory's error.json. An
// empty run_directory: on stderr only.
void ReportAttempt(const launch::AttemptEnd& end, int world_size, const std::filesystem::path& run_directory);

}  // namespace dtrain
