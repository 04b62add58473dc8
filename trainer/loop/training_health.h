// Warnings about a training that is slow, skips steps or has losses that stand out, and the limits beyond which it is
// ended as diverged.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/loop/training_state.h"
#include "trainer/report/points.h"

namespace dtrain::loop {

// Warns that training spends `fraction` (0 to 1) of its time waiting for data, and says what to change: it waits for
// storage, or for the threads that prepare batches, of which a rank has `workers`. Only files of images can be packed.
void WarnOfWaiting(double fraction, bool for_storage, int64_t workers, bool of_images);

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

// A training loss that stands out from those before (--spike_factor).
struct Spike {
  int64_t step = 0;  // counted from 1
  double loss = 0;
  double mean = 0, deviation = 0;  // of the losses before
};

// Finds the spikes. The loss is that of the global batch, the same on all ranks, so that all find the same spikes. The
// decision is made on the device, by a few small operations in each step, and the host does not wait for it.
//
// With W = kWindow and factor k, the n-th loss x is a spike if n > W and x > mean + k · deviation. Then mean += a · d
// and variance = (1 - a) · (variance + a · d²), where d = x - mean and a = 1 / min(n, W): these are the mean and
// variance of all losses so far, and after W of them exponential ones. A spike counts there as the bound that it
// exceeds, so that a lasting change of the loss is soon no spike any more. Losses that are not finite, and steps with
// nothing to learn, do not count.
class SpikeWatch {
 public:
  // The spikes that are kept for Take. Further ones keep their effect on a step, but are not reported.
  static constexpr int64_t kMostKept = 32;
  static constexpr int64_t kWindow = 100;  // steps

  SpikeWatch(const config::OptimizerConfig& config, const LossStatistics& losses, at::Device device);

  // Looks at the loss of a step: `sums` is indexed by StepSum. Returns a float32 scalar on the device: 1 if it is a
  // spike, else 0. This is work of the device alone, since a step graph records it.
  at::Tensor Step(const at::Tensor& sums);

  // These wait for the device.
  // Returns the spikes since the last call, in order, and forgets them. `step`: the number of steps done.
  std::vector<Spike> Take(int64_t step);
  LossStatistics Losses() const;

 private:
  const double factor_;
  at::Tensor state_;   // float64 on the device, indexed by an enum of the source
  at::Tensor spikes_;  // float64 kMostKept×4 on the device: steps of this object, loss, mean, deviation
};

}  // namespace dtrain::loop
