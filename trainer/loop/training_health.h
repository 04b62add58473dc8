// What is said of a training that does not fail, and does not go well either; and when it is ended for that.
#pragma once

#include <cstdint>
#include <optional>

namespace dtrain::loop {

// `fraction` of the time a step takes is spent on waiting for data: says what to change.
void WarnOfWaiting(double fraction, bool for_storage, bool for_gpu, int64_t workers);

// Says that steps were skipped: the first time, and whenever their number has doubled.
class SkippedSteps {
 public:
  // Of steps after this one.
  explicit SkippedSteps(int64_t step = 0) : last_line_(step) {}

  // With each logged line: `skipped` of the steps since the last one, up to `step`.
  void Line(int64_t step, int64_t skipped, std::optional<double> loss_scale);

 private:
  int64_t last_line_;
  int64_t total_ = 0;
  int64_t warned_of_ = 0;
};

// Throws DivergedError where the loss is not finite by `step`.
void RequireFinite(double loss, int64_t step);

// Throws DivergedError where the last `skipped_in_a_row` steps changed nothing and only fewer than `limit` may.
void RequireUpdates(int64_t skipped_in_a_row, int64_t limit, int64_t step);

}  // namespace dtrain::loop
