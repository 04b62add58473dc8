#include "trainer/launcher_report.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "data/shown.h"
#include "trainer/report/error_report.h"
#include "trainer/report/run_directory.h"

namespace dtrain {
namespace {

constexpr std::streamoff kShownBytes = 4096;

// Prints the last lines of the first rank's log. Rank 0 has written to the console already.
void ShowEndOfLog(const launch::RankDeath& first, const std::filesystem::path& run_directory) {
  const int rank = first.rank;
  if (rank == 0 || run_directory.empty()) return;
  const std::filesystem::path path = report::RunDirectory(run_directory).log(rank);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return;
  const std::streamoff size = file.tellg();
  file.seekg(size > kShownBytes ? size - kShownBytes : 0);
  std::string line;
  if (size > kShownBytes) std::getline(file, line);  // skips the rest of a line that is cut
  const bool is_victim = first.signal == 0 && first.exit_code == static_cast<int>(ExitCode::kPeerLost);
  const char* what = is_victim ? "has lost another rank" : "failed first";
  std::fprintf(stderr, "rank %d %s; the end of %s:\n", rank, what, Shown(path.string()).c_str());
  while (std::getline(file, line)) std::fprintf(stderr, "  %s\n", Shown(line).c_str());
}

report::Failure KilledRank(const launch::AttemptEnd& end, int world_size) {
  report::Failure failure;
  failure.code = ExitCode::kPeerLost;
  failure.message =
      "the rank was killed by signal " + std::to_string(end.cause.signal) + " (" + strsignal(end.cause.signal) + ")";
  failure.hint = end.cause.signal == SIGKILL
                     ? "if nobody killed it, the system ran out of memory (see dmesg): lower --batch_size or --workers"
                     : "this is a bug of dtrain or of a library: please report it with the end of the rank's log";
  failure.rank = end.cause.rank;
  failure.world_size = world_size;
  if (end.last_step >= 0) failure.step = end.last_step;
  failure.is_root_cause = true;
  return failure;
}

}  // namespace

void ReportAttempt(const launch::AttemptEnd& end, int world_size, const std::filesystem::path& run_directory) {
  ShowEndOfLog(end.cause, run_directory);
  if (end.cause.signal != 0) {
    report::Failure failure = KilledRank(end, world_size);
    if (!end.restarts && !end.verdict.empty()) failure.message += "; " + end.verdict;
    report::ReportFailure(failure, run_directory);
    if (!end.restarts) return;
  }
  if (!end.verdict.empty()) std::fprintf(stderr, "dtrain: %s\n", end.verdict.c_str());
}

}  // namespace dtrain
