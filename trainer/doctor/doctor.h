// --doctor: examines machine, network and data before people spend hours on a run. It leaves nothing behind. The result
// of each check is a value, so that tests can try verdicts without the machine they are about.
#pragma once

#include <functional>
#include <string>

#include "data/error.h"
#include "trainer/launch/launch.h"
#include "trainer/modes/run.h"

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

// Prints a line for each check. The ranks connect to each other as those of a run do, within --init_timeout (if not
// given: one minute), and disconnect again. Returns the exit code of this rank's first failure, or kDone.
ExitCode Examine(const modes::RunContext& context, const launch::Machine& machine);

}  // namespace dtrain::doctor
