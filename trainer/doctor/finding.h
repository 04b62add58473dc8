// What --doctor says of one thing: a value, so that each check is a function that can be tried without the machine.
#pragma once

#include <functional>
#include <string>

#include "data/error.h"

namespace dtrain::doctor {

enum class Verdict { kOk, kWarning, kFailed };

struct Finding {
  std::string check;  // a word or two: what was looked at
  Verdict verdict = Verdict::kOk;
  std::string what;                 // what was found, with its numbers
  std::string remedy = {};          // what to do; empty where all is well
  ExitCode code = ExitCode::kDone;  // of a failure: its class
};

Finding Ok(const std::string& check, const std::string& what);
Finding Warning(const std::string& check, const std::string& what, const std::string& remedy);
Finding Failed(const std::string& check, ExitCode code, const std::string& what, const std::string& remedy);

// What `look` finds; an Error that it throws is a failure.
Finding Tried(const std::string& check, const std::function<Finding()>& look);

// Prints findings on stdout, each at once, and remembers the first failure.
class Findings {
 public:
  Findings(bool as_json, int rank, int world_size) : as_json_(as_json), rank_(rank), world_size_(world_size) {}

  // A line: "failed   disk           cannot …; choose another --run_dir". With several ranks "[rank 1] " is before it.
  // As JSON an object with check, verdict, what, remedy, rank, host, and with a failure exit_code.
  void Say(const Finding& finding);

  // Of the first failure.
  ExitCode code() const { return code_; }

 private:
  const bool as_json_;
  const int rank_;
  const int world_size_;
  ExitCode code_ = ExitCode::kDone;
};

}  // namespace dtrain::doctor
