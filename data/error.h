// The base of every error that a user can meet, and the one that data raises. The others are in trainer/errors.h.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace dtrain {

// Process exit codes: a contract with launchers and scripts.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,        // command line or configuration
  kData = 3,         // data set missing, unreadable or inconsistent
  kPeerLost = 4,     // another rank or the network
  kStorage = 5,      // checkpoint or disk
  kDiverged = 6,     // non-finite loss or gradients
  kOutOfMemory = 7,  // host or device
  kInternal = 70,    // a bug
  kPreempted = 75,   // stopped after a clean save: run again to go on
};

// What happened and on what (`what()`), and what to do about it (`hint()`, may be empty).
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

class DataError : public Error {
 public:
  explicit DataError(const std::string& what, std::string hint = "") : Error(ExitCode::kData, what, std::move(hint)) {}
};

}  // namespace dtrain
