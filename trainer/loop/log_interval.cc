#include "trainer/loop/log_interval.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainer/device/device.h"
#include "trainer/loop/step_computation.h"

namespace dtrain::loop {
namespace {

using IntervalClock = std::chrono::steady_clock;

// Loss, weight and hits are summed over the steps whose loss is finite, norms and clipped steps over the steps that
// were not skipped.
enum IntervalSum {
  kIntervalLoss,
  kIntervalWeight,
  kIntervalUnits,
  kIntervalPadding,
  kIntervalSamples,
  kIntervalEmpty,
  kIntervalHits,
  kIntervalSkipped,
  kIntervalNotFinite,
  kIntervalNothing,
  kIntervalNorm,
  kIntervalClipped,
  kNumIntervalSums
};

// In state.json; versions before 0.2 know loss_sum, weight and hits.
constexpr const char* kNames[kNumIntervalSums] = {"loss_sum", "weight",  "units",      "padding", "samples", "empty",
                                                  "hits",     "skipped", "not_finite", "nothing", "norm",    "clipped"};
constexpr char kSteps[] = "steps";

}  // namespace

LogInterval::LogInterval(const TrainerParts& parts, const HostTimes& times)
    : parts_(parts),
      times_(times),
      sums_(at::zeros({kNumIntervalSums}, at::TensorOptions(at::kDouble).device(parts.device))),
      units_of_run_(at::zeros({}, at::TensorOptions(at::kDouble).device(parts.device))) {}

int64_t LogInterval::Restore(const Progress& progress) {
  const auto kept = [&progress](const char* name) {
    const auto found = progress.interval.find(name);
    return found != progress.interval.end() ? found->second : 0.0;
  };
  for (int i = 0; i < kNumIntervalSums; ++i) sums_[i] = kept(kNames[i]);
  units_before_ = kept(kNames[kIntervalUnits]);
  steps_before_ = static_cast<int64_t>(kept(kSteps));
  return steps_before_;
}

void LogInterval::KeepIn(Progress& progress) const {
  const at::Tensor sums = sums_.cpu();
  for (int i = 0; i < kNumIntervalSums; ++i) progress.interval[kNames[i]] = sums[i].item<double>();
  progress.interval[kSteps] = static_cast<double>(steps_before_ + steps_);
}

void LogInterval::Start() {
  times_before_ = times_.UpToNow();
  run_start_ = start_ = IntervalClock::now();
}

void LogInterval::AddStep(const at::Tensor& sums, const optim::ParameterUpdate& update) {
  const at::Tensor not_finite = sums[kLossSum].isfinite().logical_not();
  sums_.slice(0, kIntervalLoss, kIntervalWeight + 1) += sums.slice(0, kLossSum, kWeight + 1).masked_fill(not_finite, 0);
  sums_.slice(0, kIntervalUnits, kIntervalEmpty + 1) += sums.slice(0, kUnits, kEmpty + 1);
  sums_[kIntervalHits] += sums[kHits].masked_fill(not_finite, 0);
  sums_[kIntervalSkipped] += update.skipped();
  sums_[kIntervalNotFinite] += update.not_finite();
  if (parts_.task.weight_varies()) sums_[kIntervalNothing] += sums[kWeight].eq(0);
  if (parts_.task.speed_unit() == report::SpeedUnit::kTokens) AddNorm(update);
  units_of_run_ += sums[kUnits];
}

void LogInterval::AddNorm(const optim::ParameterUpdate& update) {
  const at::Tensor done = update.skipped().eq(0);
  const at::Tensor& norm = update.gradient_norm_on_device();
  sums_[kIntervalNorm] += norm.masked_fill(done.logical_not(), 0);
  sums_[kIntervalClipped] += done.logical_and(norm > parts_.config.optimizer.clip_norm);
}

report::TrainPoint LogInterval::Line(int64_t step, const optim::ParameterUpdate& update) const {
  const at::Tensor sums = sums_.cpu();
  const double weight = sums[kIntervalWeight].item<double>();
  const double seconds = report::SecondsSince(start_);
  report::TrainPoint point;
  point.step = step;
  point.epoch = parts_.plan.EpochAt(step);
  point.epoch_number = parts_.plan.EpochNumber(step);
  point.loss = weight > 0 ? sums[kIntervalLoss].item<double>() / weight : std::numeric_limits<double>::quiet_NaN();
  if (weight > 0) point.metrics = parts_.task.TrainingMetrics(sums[kIntervalHits].item<double>(), weight);
  point.lr = parts_.plan.LearningRate(step - 1);
  point.speed = (sums[kIntervalUnits].item<double>() - units_before_) / seconds;
  point.speed_unit = parts_.task.speed_unit();
  AddTimes(point, seconds);
  point.grad_norm = update.gradient_norm();
  point.loss_scale = update.loss_scale();
  point.bad_records = parts_.control.bad_records(parts_.data.train->name);
  point.time = report::SecondsSince1970();
  point.skipped_steps = sums[kIntervalNotFinite].item<int64_t>();
  point.empty_steps = sums[kIntervalNothing].item<int64_t>();
  if (point.speed_unit == report::SpeedUnit::kTokens) AddText(point, sums, seconds);
  if (parts_.reporter.wants_final_loss()) point.final_loss = point.loss + update.L2Term();
  return point;
}

// Time that belongs to no part of a step, above all saving, is counted as kOther.
void LogInterval::AddTimes(report::TrainPoint& point, double seconds) const {
  using report::Phase;
  const auto steps = static_cast<double>(steps_);
  report::TimeParts parts = (times_.UpToNow() - times_before_) / steps;
  point.step_seconds = seconds / steps;
  point.data_seconds = parts[Phase::kData];
  if (!times_.tells_parts_of_steps()) return;
  double rest = point.step_seconds;
  for (const Phase part : {Phase::kData, Phase::kForward, Phase::kBackward, Phase::kExchange, Phase::kUpdate}) {
    rest -= parts[part];
  }
  parts[Phase::kOther] = std::max(0.0, rest);
  point.step_parts = parts;
}

// The steps before a resume count as if they had taken as long.
void LogInterval::AddText(report::TrainPoint& point, const at::Tensor& sums, double seconds) const {
  const int64_t steps = steps_before_ + steps_;
  seconds *= static_cast<double>(steps) / static_cast<double>(steps_);
  const auto count = [&sums](IntervalSum sum) { return std::llround(sums[sum].item<double>()); };
  point.text = report::TextCounts{.batches = steps,
                                  .samples = count(kIntervalSamples),
                                  .tokens = count(kIntervalUnits),
                                  .padding = count(kIntervalPadding),
                                  .empty_samples = count(kIntervalEmpty),
                                  .has_perplexity = parts_.task.has_perplexity(),
                                  .seconds = seconds};
  const auto updates = static_cast<double>(steps - count(kIntervalSkipped));
  if (updates > 0) {
    point.mean_grad_norm = sums[kIntervalNorm].item<double>() / updates;
    if (parts_.config.optimizer.clip_norm > 0) {
      point.clipped = 100 * sums[kIntervalClipped].item<double>() / updates;
    }
  }
  if (!parts_.device.is_cpu()) point.free_gigabytes = device::LeastFreeGigabytes(parts_.device);
  point.run_seconds = report::SecondsSince(run_start_);
}

void LogInterval::Restart() {
  sums_.zero_();
  times_before_ = times_.UpToNow();
  steps_ = steps_before_ = 0;
  units_before_ = 0;
  start_ = IntervalClock::now();
}

}  // namespace dtrain::loop
