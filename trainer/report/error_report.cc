#include "trainer/report/error_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "data/shallow_json.h"
#include "data/shown.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/log.h"

namespace dtrain::report {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kMaxReportBytes = uint64_t{1} << 20;

// Writes as much as the system accepts, and returns whether that was all.
bool WriteAll(int descriptor, const char* data, size_t bytes) noexcept {
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

// Creates and fills a file. Returns false if it exists, or cannot be created or filled, and then leaves none behind.
bool CreateExclusively(const fs::path& path, const std::string& content) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return false;
  const bool is_whole = WriteAll(descriptor, content.data(), content.size());
  ::close(descriptor);
  if (!is_whole) ::unlink(path.c_str());
  return is_whole;
}

// Messages of these kinds may have several lines: one for each mistake of the command line, or the text of a library.
// In other messages a line feed comes from outside, for example from a file's name, and is escaped.
LineFeeds LineFeedsOf(ExitCode code) {
  const bool own = code == ExitCode::kUsage || code == ExitCode::kInternal || code == ExitCode::kOutOfMemory;
  return own ? LineFeeds::kKept : LineFeeds::kEscaped;
}

std::string TextFor(const Failure& failure) {
  const int code = static_cast<int>(failure.code);
  std::string text = failure.code == ExitCode::kPreempted ? "dtrain stopped" : "dtrain failed";
  text += std::string(" (") + KindOf(failure.code) + ", exit code " + std::to_string(code) + ")";
  if (failure.world_size > 1) {
    text += " on rank " + std::to_string(failure.rank) + " of " + std::to_string(failure.world_size);
  }
  if (failure.step) text += " after step " + std::to_string(*failure.step);
  text += ": " + Shown(failure.message, std::string::npos, LineFeedsOf(failure.code)) + "\n";
  if (!failure.hint.empty()) text += "  what to do: " + Shown(failure.hint) + "\n";
  return text;
}

std::string Dump(const nlohmann::ordered_json& json, int indentation = 2) { return JsonText(json, indentation) + "\n"; }

std::string JsonFor(const Failure& failure, std::time_t now, int indentation = 2) {
  nlohmann::ordered_json json = {{"exit_code", static_cast<int>(failure.code)},
                                 {"kind", KindOf(failure.code)},
                                 {"message", failure.message},
                                 {"hint", failure.hint},
                                 {"rank", failure.rank},
                                 {"step", nullptr},
                                 {"host", HostName()},
                                 {"pid", ::getpid()},
                                 {"time", static_cast<int64_t>(now)}};
  if (failure.step) json["step"] = *failure.step;
  return Dump(json, indentation);
}

bool IsVictim(const Failure& failure) { return failure.code == ExitCode::kPeerLost && !failure.is_root_cause; }

// The format of torch/distributed/elastic/multiprocessing/errors in https://github.com/pytorch/pytorch. The time stamp
// is required; torchrun shows the failure with the earliest one as the root cause, and of equal ones the process that
// ended first, a victim. So victims, which may also write before the cause does, have a later one.
std::string TorchrunJsonFor(const Failure& failure, std::time_t now) {
  constexpr std::time_t kBehindTheCause = 30;
  const std::string time = std::to_string(now + (IsVictim(failure) ? kBehindTheCause : 0));
  const nlohmann::ordered_json extra = {{"py_callstack", TextFor(failure)}, {"timestamp", time}};
  return Dump({{"message", {{"message", failure.message}, {"extraInfo", extra}}}});
}

bool HoldsVictim(const fs::path& path) {
  try {
    const auto json = nlohmann::json::parse(checkpoint::ReadTextFile(path, kMaxReportBytes), nullptr, false);
    return !json.is_object() || json.value("exit_code", 0) == static_cast<int>(ExitCode::kPeerLost);
  } catch (...) {
    return false;
  }
}

void WriteRunFiles(const Failure& failure, const fs::path& run_directory, const std::string& content) {
  const fs::path shared = run_directory / "error.json";
  const fs::path own = run_directory / ("error.rank" + std::to_string(failure.rank) + ".json");
  const bool victim = IsVictim(failure);
  const bool created = CreateExclusively(shared, content);
  const bool replaces = !created && !victim && HoldsVictim(shared);
  if (created && !victim) return;
  checkpoint::WriteAtomically(own, content);
  // Replaces the victim's report with this rank's file in one step.
  if (replaces) checkpoint::RenameDurably(own, shared);
}

// Runs one of several independent attempts to report the failure, and ignores its errors.
template <typename Attempt>
void Try(const Attempt& attempt) noexcept {
  try {
    attempt();
  } catch (...) {
  }
}

}  // namespace

void ReportFailure(const Failure& failure, const fs::path& run_directory) noexcept {
  const std::time_t now = std::time(nullptr);
  const bool may_follow_bar = failure.code != ExitCode::kPreempted && !failure.as_json;
  WriteAll(STDERR_FILENO, "\n", may_follow_bar ? 1 : 0);  // ends the line of the bar
  try {
    const std::string text = failure.as_json ? JsonFor(failure, now, -1) : TextFor(failure);
    WriteAll(STDERR_FILENO, text.data(), text.size());
  } catch (...) {  // no memory for the text
    WriteAll(STDERR_FILENO, failure.message.data(), failure.message.size());
  }
  if (failure.code == ExitCode::kPreempted || failure.code == ExitCode::kDone) return;

  if (!run_directory.empty()) Try([&] { WriteRunFiles(failure, run_directory, JsonFor(failure, now)); });
  const char* torchrun_file = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (torchrun_file != nullptr && *torchrun_file != '\0') {
    Try([&] { checkpoint::WriteAtomically(torchrun_file, TorchrunJsonFor(failure, now)); });
  }
}

void RemoveErrorFiles(const fs::path& run_directory) {
  for (const std::string& name : checkpoint::NamesIn(run_directory)) {
    if (name != "error.json" && !(name.starts_with("error.rank") && name.ends_with(".json"))) continue;
    std::error_code error;
    fs::remove(run_directory / name, error);
    if (error) checkpoint::ThrowSystemError("remove old error reports in", run_directory, error.value());
  }
}

}  // namespace dtrain::report
