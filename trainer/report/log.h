// Diagnostics for people, to stderr and optionally a file: a thin front for glog, so that one file includes it (its
// macros clash with those of torch).
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace dtrain::report {

// Once per process, before the first line. With more than one rank each line is prefixed by "[rank N]". A directory
// (created if need be) adds <directory>/rank-N.log with everything, and ranks other than 0 then show only warnings and
// errors on stderr. An empty directory: stderr only.
void InitializeLogging(int rank, int world_size, const std::string& log_directory);

// Sends this process's stdout and stderr to the end of a file from here on, and creates its folder. False, and nothing
// changed, where it cannot be opened.
bool SendOutputTo(const std::filesystem::path& file);

// Whoever keeps a line at the bottom of the terminal is called with each line that the log writes to it, and makes room
// for it. Null: nobody does. A line that is being written is waited for.
void SetAroundLogLines(std::function<void(const std::function<void()>& write)> around);

// Each message is one line: what a terminal would act on is shown escaped.
void LogInfo(const std::string& message);
void LogWarning(const std::string& message);
void LogError(const std::string& message);

}  // namespace dtrain::report
