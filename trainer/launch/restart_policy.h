// Decides whether the node launcher restarts the local ranks after a failure.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain::launch {

class RestartPolicy {
 public:
  explicit RestartPolicy(int max_restarts) : max_restarts_(max_restarts) {}

  struct Verdict {
    bool restart = false;
    std::string reason;  // for the user; empty if no restart was asked for
  };

  // Called when an attempt has failed with `exit_code` after `last_step` steps (-1: training had not begun). There is
  // no restart after a failure that would repeat (exit codes 2, 3 and 6), nor after three restarts in a row that got no
  // further.
  Verdict AfterFailure(int exit_code, int64_t last_step);

  int restarts() const { return restarts_; }

 private:
  int max_restarts_;
  int restarts_ = 0;
  int without_progress_ = -1;  // failures since the furthest step was reached; -1: no failure yet
  int64_t furthest_step_ = -1;
};

}  // namespace dtrain::launch
