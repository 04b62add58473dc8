// One exception type per exit code of the trainer. data/error.h has Error, their base, and DataError.
#pragma once

#include "data/error.h"

namespace dtrain {

class UsageError : public Error {
 public:
  explicit UsageError(const std::string& what, std::string hint = "")
      : Error(ExitCode::kUsage, what, std::move(hint)) {}
};

class PeerLostError : public Error {
 public:
  explicit PeerLostError(const std::string& what, std::string hint = "")
      : Error(ExitCode::kPeerLost, what, std::move(hint)) {}
};

class StorageError : public Error {
 public:
  explicit StorageError(const std::string& what, std::string hint = "")
      : Error(ExitCode::kStorage, what, std::move(hint)) {}
};

class DivergedError : public Error {
 public:
  explicit DivergedError(const std::string& what, std::string hint = "")
      : Error(ExitCode::kDiverged, what, std::move(hint)) {}
};

class Preempted : public Error {
 public:
  explicit Preempted(const std::string& what, std::string hint = "")
      : Error(ExitCode::kPreempted, what, std::move(hint)) {}
};

}  // namespace dtrain
