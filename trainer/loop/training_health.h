// What is said of a training that does not fail, and does not go well either; and when it is ended for that.
#pragma once

#include <cstdint>
#include <optional>

namespace dtrain::loop {

// `fraction` of the time a step takes is spent on waiting for data: says what to change.
void WarnOfWaiting(double fraction, bool for_storage, bool for_gpu, int64_t workers);

// `skipped` steps since the last line, up to `step`.
void WarnOfSkippedSteps(int64_t skipped, std::optional<double> loss_scale, int64_t step);

// Throws DivergedError where the loss is not finite by `step`.
void RequireFinite(double loss, int64_t step);

// Throws DivergedError where the last `skipped_in_a_row` steps changed nothing and only fewer than `limit` may.
void RequireUpdates(int64_t skipped_in_a_row, int64_t limit, int64_t step);

}  // namespace dtrain::loop
