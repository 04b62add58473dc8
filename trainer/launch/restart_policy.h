// Whether the local ranks are started again after a failure.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain::launch {

class RestartPolicy {
 public:
  explicit RestartPolicy(int max_restarts) : max_restarts_(max_restarts) {}

  struct Verdict {
    bool restart = false;
    std::string reason;  // why (not), for the user; empty where no restart was asked for
  };

  // An attempt failed with `exit_code` when `last_step` steps were done (-1: training had not begun). A failure that
  // would only come again (exit codes 2, 3 and 6) is not repeated, nor is one that has come three times more without
  // getting any further.
  Verdict AfterFailure(int exit_code, int64_t last_step);

  int restarts() const { return restarts_; }

 private:
  int max_restarts_;
  int restarts_ = 0;
  int without_progress_ = -1;  // restarts since the furthest step was reached; -1: none was made yet
  int64_t furthest_step_ = -1;
};

}  // namespace dtrain::launch
