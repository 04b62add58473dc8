// The base class of all errors that are reported to the user, and the error that data raises. trainer/errors.h has the
// others.
#pragma once

#include <algorithm>
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

// What is known of an exit code.
struct ExitCodeFacts {
  ExitCode code;
  const char* kind;          // the word for it in messages and reports
  bool would_recur = false;  // the same command ends so again: it is not restarted
};

inline constexpr std::array kExitCodes = {ExitCodeFacts{ExitCode::kDone, "done"},
                                          ExitCodeFacts{ExitCode::kUsage, "usage", /*would_recur=*/true},
                                          ExitCodeFacts{ExitCode::kData, "data", /*would_recur=*/true},
                                          ExitCodeFacts{ExitCode::kPeerLost, "peer_lost"},
                                          ExitCodeFacts{ExitCode::kStorage, "storage"},
                                          ExitCodeFacts{ExitCode::kDiverged, "diverged", /*would_recur=*/true},
                                          ExitCodeFacts{ExitCode::kOutOfMemory, "out_of_memory"},
                                          ExitCodeFacts{ExitCode::kInternal, "internal"},
                                          ExitCodeFacts{ExitCode::kPreempted, "preempted"}};

// Returns null for a number that is none of these.
inline const ExitCodeFacts* FindExitCode(int code) {
  const auto found =
      std::ranges::find_if(kExitCodes, [code](const auto& known) { return static_cast<int>(known.code) == code; });
  return found == kExitCodes.end() ? nullptr : &*found;
}

inline const char* KindOf(ExitCode code) {
  const ExitCodeFacts* facts = FindExitCode(static_cast<int>(code));
  return facts != nullptr ? facts->kind : "internal";
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
