#include "trainer/launch/restart_policy.h"

#include "trainer/errors.h"

namespace dtrain::launch {
namespace {

constexpr int kMostWithoutProgress = 3;

bool WouldComeAgain(int exit_code) {
  const ExitCodeFacts* facts = FindExitCode(exit_code);
  return facts != nullptr && facts->would_recur;
}

std::string At(int64_t step) { return step < 0 ? "before training began" : "at step " + std::to_string(step); }

}  // namespace

RestartPolicy::Verdict RestartPolicy::AfterFailure(int exit_code, int64_t last_step) {
  if (max_restarts_ == 0 || exit_code == 0 || exit_code == static_cast<int>(ExitCode::kPreempted)) return {};
  const bool progress = without_progress_ < 0 || last_step > furthest_step_;
  without_progress_ = progress ? 0 : without_progress_ + 1;
  if (progress) furthest_step_ = last_step;
  if (WouldComeAgain(exit_code)) {
    return {false, "not started again: exit code " + std::to_string(exit_code) + " would only occur again"};
  }
  if (without_progress_ >= kMostWithoutProgress) {
    return {false, "a crash loop: " + std::to_string(kMostWithoutProgress) +
                       " restarts in a row made no progress; the run ends " + At(furthest_step_)};
  }
  if (restarts_ >= max_restarts_) {
    return {false, "not started again: all --max_restarts=" + std::to_string(max_restarts_) + " are used up, " +
                       At(last_step)};
  }
  ++restarts_;
  return {true, "starting the local ranks again from the last checkpoint (restart " + std::to_string(restarts_) +
                    " of at most " + std::to_string(max_restarts_) + ")"};
}

}  // namespace dtrain::launch
