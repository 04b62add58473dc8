// The base class of all errors that are reported to the user, and the error that data raises. trainer/errors.h has the
// others.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace dtrain {

// The process exit codes, on which launchers and scripts rely.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,        // command line or configuration
  kData = 3,         // data set missing, unreadable or inconsistent
  kPeerLost = 4,     // another rank or the network
  kStorage = 5,      // checkpoint or disk
  kDiverged = 6,     // non-finite loss or gradients
  kOutOfMemory = 7,  // host or device
  kInternal = 70,    // a bug
  kPreempted = 75,   // stopped after a clean save; the same command continues the run
};

// Returns the word for an exit code in messages and reports: "usage", "data", "peer_lost", …
inline const char* KindOf(ExitCode code) {
  constexpr std::array<std::pair<ExitCode, const char*>, 9> kKinds = {{{ExitCode::kDone, "done"},
                                                                       {ExitCode::kUsage, "usage"},
                                                                       {ExitCode::kData, "data"},
                                                                       {ExitCode::kPeerLost, "peer_lost"},
                                                                       {ExitCode::kStorage, "storage"},
                                                                       {ExitCode::kDiverged, "diverged"},
                                                                       {ExitCode::kOutOfMemory, "out_of_memory"},
                                                                       {ExitCode::kInternal, "internal"},
                                                                       {ExitCode::kPreempted, "preempted"}}};
  for (const auto& [known, kind] : kKinds) {
    if (known == code) return kind;
  }
  return "internal";
}

// `what()` says what happened and to which object; `hint()` says what to do about it and may be empty.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what, std::string hint)
      : std::runtime_error(what), code_(code), hint_(std::move(hint)) {}
  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

// An error that always has the same exit code.
template <ExitCode kCode>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& what, std::string hint = "") : Error(kCode, what, std::move(hint)) {}
};

using DataError = ErrorOf<ExitCode::kData>;

}  // namespace dtrain
