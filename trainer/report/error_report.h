// The last words of a failing rank: on stderr for people, as JSON for scripts, and in torchrun's format for torchrun.
// It runs when anything may already be broken, so it uses plain system calls and never throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/error.h"

namespace dtrain::report {

// "usage", "data", "peer_lost", "storage", "diverged", "out_of_memory", "internal", "preempted" or "done".
const char* KindOf(ExitCode code);

struct Failure {
  ExitCode code = ExitCode::kInternal;
  std::string message;  // what happened, on what
  std::string hint;     // what to do; may be empty
  int rank = 0;
  int world_size = 1;
  std::optional<int64_t> step = std::nullopt;  // steps done; unknown before the first
  bool is_root_cause = false;                  // of an exit code 4: no victim, but the rank that was killed itself
};

// Prints the failure and writes
//   <run_directory>/error.json        exclusively: the first root cause keeps it. A victim (exit 4) creates it only
//                                     where there is none, and a root cause replaces a victim's;
//   <run_directory>/error.rankN.json  by victims, and by root causes that came second;
//   $TORCHELASTIC_ERROR_FILE          if it is set and not empty.
// Fields: exit_code, kind, message, hint, rank, step (or null), host, pid, time (seconds since 1970). Nothing of the
// environment gets in. An empty run_directory writes no file there; a preemption is only printed.
void ReportFailure(const Failure& failure, const std::filesystem::path& run_directory) noexcept;

// Removes error.json and error.rank*.json of an earlier attempt: by rank 0, at the start of a run. Throws StorageError.
void RemoveErrorFiles(const std::filesystem::path& run_directory);

}  // namespace dtrain::report
