// Reports the failure of a rank: on stderr for people, as JSON for scripts, and in torchrun's format for torchrun. It
// runs when anything may be broken already, so it uses plain system calls and never throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/error.h"
#include "data/outputs.h"

namespace dtrain::report {

struct Failure {
  ExitCode code = ExitCode::kInternal;
  std::string message;  // what happened, on what
  std::string hint;     // what to do; may be empty
  int rank = 0;
  int world_size = 1;
  std::optional<int64_t> step = std::nullopt;  // steps done; empty if the failure came before training
  bool is_root_cause = false;                  // with exit code 4: the rank was itself killed, and is no victim
  bool as_json = false;                        // printed as a line of the JSON below, for --log_format=json
};

// Prints the failure (of any kind, as text or JSON) and writes these files:
//   <run_directory>/error.json        The first root cause. A victim (exit code 4: it lost a peer) writes it only if
//                                     there is none yet, and a root cause replaces that of a victim.
//   <run_directory>/error.rankN.json  Victims, and root causes after the first.
//   $TORCHELASTIC_ERROR_FILE          If the variable is set and not empty.
// The JSON has exit_code, kind, message, hint, rank, step (or null), host, pid and time (seconds since 1970), and
// nothing of the environment. An empty `run_directory` leaves out the first two. A preemption is only printed.
void ReportFailure(const Failure& failure, const std::filesystem::path& run_directory) noexcept;

// How error.json is known again.
inline const data::Mark kErrorMark = {"{", "\"exit_code\":"};

// Removes error.json and error.rank*.json of an earlier attempt. Called by rank 0 at the start. Throws StorageError.
void RemoveErrorFiles(const std::filesystem::path& run_directory);

}  // namespace dtrain::report
