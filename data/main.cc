// The program dtrain_data, which prepares and checks data: runs the command that the command line names, and turns
// every failure into one message and one exit code.
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "data/command_line/version.h"
#include "data/error.h"
#include "data/prepare/commands.h"
#include "data/shown.h"
#include "data/written_file.h"

namespace {

using namespace dtrain;

int Fail(ExitCode code, const std::string& what, const std::string& hint) {
  std::fflush(stdout);
  std::fprintf(
      stderr, "\ndtrain failed (%s, exit code %d): %s\n", KindOf(code), static_cast<int>(code),
      Shown(what, std::string::npos, code == ExitCode::kUsage ? LineFeeds::kKept : LineFeeds::kEscaped).c_str());
  if (!hint.empty()) std::fprintf(stderr, "  what to do: %s\n", Shown(hint).c_str());
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  data::OccupyStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit then fails with EFBIG
  data::RemoveUnfinishedFilesOnSignals();
  try {
    const auto line = data::ParsePrepareCommandLine(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
                                                    VersionAndCommit());
    if (line.answer.empty()) {
      data::RunCommand(line.options);
    } else {
      std::puts(line.answer.c_str());
    }
    const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;  // a full buffer was written before
    if (!is_written) return Fail(ExitCode::kStorage, "cannot write to stdout", "");
    return 0;
  } catch (const Error& error) {
    return Fail(error.code(), error.what(), error.hint());
  } catch (const std::filesystem::filesystem_error& error) {
    return Fail(ExitCode::kStorage, error.what(), "check that the folder exists, and that this user may write there");
  } catch (const std::exception& error) {
    const bool is_of_opencv = std::string_view(error.what()).find("Insufficient memory") != std::string_view::npos;
    if (is_of_opencv || dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
      return Fail(ExitCode::kOutOfMemory, "out of memory", "use fewer --workers");
    }
    return Fail(ExitCode::kInternal, error.what(), "this is a bug of dtrain: please report it");
  }
}
