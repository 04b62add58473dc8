// Warnings about a training that is slow or skips steps, and the limits beyond which it is ended as diverged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/report/points.h"

namespace dtrain::loop {

// What training waits for when it waits for data: storage (with --cache=ram: kCachedStorage), or the threads that
// decode images, mask tokens or pad sentences.
enum class WaitsFor { kStorage, kCachedStorage, kImageThreads, kMaskingThreads, kSentenceThreads };

// Warns that training spends `fraction` (0 to 1) of its time waiting for data, and says what to change. A rank has
// `workers` decode threads.
void WarnOfWaiting(double fraction, WaitsFor waits_for, int64_t workers);

// Warns of skipped steps: the first time, and whenever their number has doubled.
class SkippedSteps {
 public:
  // Counts the steps after `step`.
  explicit SkippedSteps(int64_t step = 0) : last_line_(step) {}

  // Called with each logged line: `skipped` is the number of skipped steps since the previous line, up to `step`.
  void Line(int64_t step, int64_t skipped, std::optional<double> loss_scale);

 private:
  int64_t last_line_;
  int64_t total_ = 0;
  int64_t warned_of_ = 0;
};

// Warns once of samples without a token, and once of steps without a token to guess. They change nothing, and are no
// sign of a training that diverges.
class NothingToLearn {
 public:
  // Called with each logged line: the numbers of such samples and steps since the previous line, up to `step`.
  void Line(int64_t step, int64_t samples, int64_t steps);

 private:
  bool warned_of_samples_ = false, warned_of_steps_ = false;
};

// Warns of samples of an evaluation without a token, and if no sample had a token to guess.
void WarnOfUnmeasured(const report::TextCounts& counts, const std::string& split);
// Returns the latter as a sentence.
std::string NothingToMeasure(const std::string& split);

// Throws DivergedError if `skipped_in_a_row`, the number of the last steps that were all skipped, is `limit` or more.
void RequireUpdates(int64_t skipped_in_a_row, int64_t limit, int64_t step);

// Whether the losses of an evaluation are finite, or there was nothing to measure.
bool HasFiniteLoss(const report::ValPoint& point);

// What tells of a run at its end whether it has learned.
struct RunEnd {
  int64_t step = 0;
  int64_t skipped_in_a_row = 0;  // the number of the last steps that were all skipped
  int64_t most_skipped = 0;      // --max_skipped_steps
  bool loss_is_finite = true;    // the one that the run reports: of its validation, without one of its last steps
};

// Throws DivergedError if that loss is not finite, or if too many of the last steps were skipped: most_skipped, and in
// a run of fewer than twice as many steps half of them.
void RequireGoodEnd(const RunEnd& end);

}  // namespace dtrain::loop
