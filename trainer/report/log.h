// What programs say to people: diagnostics, on stderr and optionally in a file, and answers on stdout. This wraps glog,
// so that a single file includes it: its macros clash with those of torch. The functions can be called on any thread
// unless they say otherwise.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace dtrain::report {

// Called once per process, on the main thread, before the first message. With more than one rank each line contains
// "[rank N]". If `log_directory` is not empty, creates it and writes all messages to <log_directory>/rank-N.log; ranks
// other than 0 then write only warnings and errors to stderr.
void InitializeLogging(int rank, int world_size, const std::string& log_directory);

// Redirects this process's stdout and stderr to the end of `file`, and creates its folder. Returns false, and changes
// nothing, if the file cannot be opened.
bool SendOutputTo(const std::filesystem::path& file);

// Sets a function that the log calls for each message, on the message's thread. It must call `write`, which writes the
// line to stderr; a progress bar makes room for the line before and draws itself again afterwards. Null for none.
// Ignored if stderr is no terminal. Returns when no call of the previous function is running.
void SetAroundLogLines(std::function<void(const std::function<void()>& write)> around);

// As printf, into a text of up to 511 bytes.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);

// The name of this machine, for people.
std::string HostName();

// Each message is one line. Control characters are escaped.
void LogInfo(const std::string& message);
void LogWarning(const std::string& message);

// Prints the answer that the user asked a program for. Unlike progress, an answer must not get lost unnoticed.
// Prints `text` and a line feed, or nothing if `text` is empty, and flushes stdout. Throws StorageError if that fails:
// the disk is full or, when only earlier output is flushed, the reader of stdout is gone. A reader of `text` itself
// that is gone has read enough of it.
void PrintAnswer(const std::string& text);

}  // namespace dtrain::report
