// The result of one check of --doctor: a value, so that tests can try verdicts without the machine they are about.
#pragma once

#include <functional>
#include <string>

#include "data/error.h"

namespace dtrain::doctor {

enum class Verdict { kOk, kWarning, kFailed };

struct Finding {
  std::string check;  // one or two words: the thing that was checked
  Verdict verdict = Verdict::kOk;
  std::string what;                 // the facts, with numbers
  std::string remedy = {};          // what to do; empty if the verdict is kOk
  ExitCode code = ExitCode::kDone;  // the exit code of a failure; otherwise kDone
};

Finding Ok(const std::string& check, const std::string& what);
Finding Warning(const std::string& check, const std::string& what, const std::string& remedy);
Finding Failed(const std::string& check, ExitCode code, const std::string& what, const std::string& remedy);

// Returns the finding of `look`, or a failure if `look` throws an Error.
Finding Tried(const std::string& check, const std::function<Finding()>& look);

// Prints findings on stdout as they come, and remembers the first failure.
class Findings {
 public:
  Findings(bool as_json, int rank, int world_size) : as_json_(as_json), rank_(rank), world_size_(world_size) {}

  // Prints one line: "failed   disk           cannot …; choose another --run_dir". With several ranks it begins with
  // "[rank 1] ". As JSON it is an object with check, verdict, what, remedy, rank and host; a failure also has
  // exit_code.
  void Say(const Finding& finding);

  // The exit code of the first failure; kDone if there was none.
  ExitCode code() const { return code_; }

 private:
  const bool as_json_;
  const int rank_;
  const int world_size_;
  ExitCode code_ = ExitCode::kDone;
};

}  // namespace dtrain::doctor
