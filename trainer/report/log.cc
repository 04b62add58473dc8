#include "trainer/report/log.h"

// The installed glog has custom prefixes compiled in, but its header declares them only with this macro.
#define GLOG_CUSTOM_PREFIX_SUPPORT
#include <glog/logging.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <mutex>
#include <system_error>
#include <utility>

#include "data/shown.h"
#include "data/written_file.h"
#include "trainer/errors.h"

namespace dtrain::report {
namespace {

// Writes "INFO 2026-01-31 08:12:01 [rank 3]". The pointer's value is the rank, so no state but glog's is needed.
void WritePrefix(std::ostream& out, const google::LogMessageInfo& info, void* rank_or_minus_one) {
  const auto rank = reinterpret_cast<intptr_t>(rank_or_minus_one);
  const auto two_digits = [&](int value) -> std::ostream& { return out << std::setfill('0') << std::setw(2) << value; };
  out << info.severity << ' ' << 1900 + info.time.year() << '-';
  two_digits(info.time.month() + 1) << '-';
  two_digits(info.time.day()) << ' ';
  two_digits(info.time.hour()) << ':';
  two_digits(info.time.min()) << ':';
  two_digits(info.time.sec());
  if (rank >= 0) out << " [rank " << rank << "]";
}

// The function set by SetAroundLogLines. It is one per process, as glog is.
struct AroundLines {
  std::mutex mutex;
  std::function<void(const std::function<void()>& write)> around;
};
AroundLines& Around() {
  static AroundLines& lines = *new AroundLines;  // never destroyed, because threads may log until the process ends
  return lines;
}

void WriteLine(const std::function<void()>& write) {
  const std::lock_guard lock(Around().mutex);
  if (!Around().around) return write();
  Around().around(write);
}

// Whether stderr is a terminal and the user has not disabled colours (no-color.org).
bool WantsColor() {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(STDERR_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
}

// Opens a log to append to. Replaces links and anything but a regular file, so that no other file is changed.
int OpenLog(const std::string& file) {
  const int descriptor = data::OpenOrCreate(file, O_WRONLY | O_APPEND);
  const bool replace = descriptor < 0 && (errno == ELOOP || errno == ENXIO || errno == EMLINK);
  return replace ? data::CreateAnew(file) : descriptor;
}

void Log(google::LogSeverity severity, const std::string& message) {
  WriteLine([&] {
    if (google::IsGoogleLoggingInitialized()) {
      google::LogMessage(__FILE__, __LINE__, severity).stream() << Shown(message);
    } else {  // glog itself would write a warning about that, and lines of another form
      std::fprintf(stderr, "%s %s\n", google::GetLogSeverityName(severity), Shown(message).c_str());
    }
  });
}

}  // namespace

void InitializeLogging(int rank, int world_size, const std::string& log_directory) {
  if (google::IsGoogleLoggingInitialized()) return;
  FLAGS_logtostderr = log_directory.empty();
  FLAGS_logbuflevel = -1;  // a crash loses no line
  FLAGS_colorlogtostderr = WantsColor();
  if (!log_directory.empty()) {
    std::error_code ignored;  // glog itself warns about a file that it cannot open
    std::filesystem::create_directories(log_directory, ignored);
    FLAGS_timestamp_in_logfile_name = false;
    FLAGS_stderrthreshold = rank == 0 ? google::GLOG_INFO : google::GLOG_WARNING;
    FLAGS_logfile_mode = 0644;
    const std::string file =
        (std::filesystem::path(log_directory) / ("rank-" + std::to_string(rank) + ".log")).string();
    if (const int descriptor = OpenLog(file); descriptor >= 0) ::close(descriptor);  // glog would follow a link
    google::SetLogDestination(google::GLOG_INFO, file.c_str());                      // includes the higher severities
    for (const auto severity : {google::GLOG_WARNING, google::GLOG_ERROR, google::GLOG_FATAL}) {
      google::SetLogDestination(severity, "");
    }
    google::SetLogSymlink(google::GLOG_INFO, "");
  }
  const intptr_t shown_rank = world_size > 1 ? rank : -1;
  // glog passes one pointer to the prefix function; its value is the rank.
  auto* shown_rank_or_none = reinterpret_cast<void*>(shown_rank);  // NOLINT(performance-no-int-to-ptr)
  google::InitGoogleLogging("dtrain", &WritePrefix, shown_rank_or_none);
}

bool SendOutputTo(const std::filesystem::path& file) {
  std::error_code ignored;  // opening the file fails, too
  std::filesystem::create_directories(file.parent_path(), ignored);
  const int descriptor = OpenLog(file);
  if (descriptor < 0) return false;
  std::fflush(nullptr);
  ::dup2(descriptor, STDOUT_FILENO);
  ::dup2(descriptor, STDERR_FILENO);
  ::close(descriptor);
  return true;
}

void SetAroundLogLines(std::function<void(const std::function<void()>& write)> around) {
  const std::lock_guard lock(Around().mutex);
  Around().around = ::isatty(STDERR_FILENO) == 1 ? std::move(around) : nullptr;
}

std::string Format(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

std::string HostName() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

void LogInfo(const std::string& message) { Log(google::GLOG_INFO, message); }
void LogWarning(const std::string& message) { Log(google::GLOG_WARNING, message); }

void PrintAnswer(const std::string& text) {
  errno = 0;
  if (!text.empty()) std::puts(text.c_str());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    const int reason = errno;                      // 0 if an earlier write has failed
    if (reason == EPIPE && !text.empty()) return;  // `head` has read enough of it
    throw StorageError("cannot write to stdout" + (reason != 0 ? ": " + std::generic_category().message(reason) : ""),
                       "its disk may be full, or the program that reads it has ended");
  }
}

}  // namespace dtrain::report
