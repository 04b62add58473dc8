#include "trainer/loop/training_health.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/joined.h"
#include "trainer/errors.h"
#include "trainer/loop/step_computation.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
namespace {

constexpr const char* kAgainstDivergence =
    "lower --lr, lengthen the warmup, or set --clip_norm; earlier checkpoints are intact: of the last one the loss may "
    "have grown already, --resume=RUN/checkpoints/step-… names another";

// kStepsSeen counts the steps of this object, kSpikes those of them that are spikes and have not been taken.
enum WatchState { kLosses, kMean, kVariance, kStepsSeen, kSpikes, kNumWatchStates };

}  // namespace

void WarnOfWaiting(double fraction, bool for_storage, int64_t workers, bool of_images) {
  report::LogWarning(
      "training waits for data " + std::to_string(std::lround(100 * fraction)) + " % of the time; " +
      (for_storage ? std::string("storage is slower than decoding: warm or copy the data first, ") +
                         (of_images ? "pack small files into shards, " : "") +
                         "use --shuffle=shard, or keep the data in memory with --cache=ram"
                   : "preparing batches needs more cores: give this rank more of them, or raise --workers if it has "
                     "more than " +
                         std::to_string(workers) + (of_images ? "; or pack images resized (dtrain_data pack)" : "")));
}

void SkippedSteps::Line(int64_t step, int64_t skipped, std::optional<double> loss_scale) {
  const int64_t first = std::exchange(last_line_, step) + 1;
  total_ += skipped;
  if (skipped == 0 || total_ < 2 * warned_of_) return;
  warned_of_ = total_;
  const std::string count = CountOf(total_, "step") + " skipped so far";
  const std::string where = first == step ? "step " + std::to_string(step)
                                          : (total_ == skipped ? "among steps " : "the last among steps ") +
                                                std::to_string(first) + " to " + std::to_string(step);
  report::LogWarning(
      count + " (" + where + "): the gradients were not finite" +
      (loss_scale ? report::Format("; the loss scale, now %g, is adapting: a few such steps are normal", *loss_scale)
                  : "; lower --lr or set --clip_norm if this goes on"));
}

void NothingToLearn::Line(int64_t step, int64_t samples, int64_t steps) {
  const std::string until = " by step " + std::to_string(step);
  if (samples > 0 && !std::exchange(warned_of_samples_, true)) {
    report::LogWarning("nothing is learned from samples without a token (" + std::to_string(samples) + until +
                       "); metrics.jsonl counts them as empty_samples");
  }
  if (steps > 0 && !std::exchange(warned_of_steps_, true)) {
    report::LogWarning("nothing is learned in steps without a token to guess, or whose classes all weigh nothing (" +
                       std::to_string(steps) + until + "); raise --batch_size if there are many");
  }
}

void WarnOfUnmeasured(const report::TextCounts& counts, const std::string& split) {
  if (counts.empty_samples > 0) {
    report::LogWarning("samples without a token do not count in the evaluation: " +
                       std::to_string(counts.empty_samples) + " of " + split);
  }
  if (counts.guessed == 0) report::LogWarning(NothingToMeasure(split) + ": its metrics are no numbers");
}

std::string NothingToMeasure(const std::string& split) {
  return "none of the evaluated samples of " + split + " has a token to guess";
}

void RequireUpdates(int64_t skipped_in_a_row, int64_t limit, int64_t step) {
  if (skipped_in_a_row < limit) return;
  throw DivergedError("gradients were not finite in " + CountOf(skipped_in_a_row, "step") + " in a row, up to step " +
                          std::to_string(step),
                      kAgainstDivergence);
}

bool HasFiniteLoss(const report::ValPoint& point) {
  if (point.text && point.text->guessed == 0) return true;  // there was nothing to measure
  const std::string of_average = std::string(report::kOfAverage) + "loss";
  const auto is_finite = [&](const report::Metric& metric) {  // those of several numbers may be called pearson_loss
    return (metric.name != "loss" && metric.name != of_average) || std::isfinite(metric.value);
  };
  return std::ranges::all_of(point.metrics, is_finite) && std::ranges::all_of(point.further, HasFiniteLoss);
}

void RequireGoodEnd(const RunEnd& end) {
  constexpr int64_t kStepsOfFirstScale = 4;  // a dynamic loss scale may need as many to come down
  const std::string steps = CountOf(end.step, "step");
  if (!end.loss_is_finite) throw DivergedError("after " + steps + " the loss is not finite", kAgainstDivergence);
  RequireUpdates(end.skipped_in_a_row, std::min(end.most_skipped, std::max(kStepsOfFirstScale, end.step / 2)),
                 end.step);
}

SpikeWatch::SpikeWatch(const config::OptimizerConfig& config, const LossStatistics& losses, at::Device device)
    : factor_(config.spike_factor) {
  const std::vector<double> state = {static_cast<double>(losses.count), losses.mean, losses.variance, 0, 0};
  state_ = at::tensor(state, at::kDouble).to(device);
  spikes_ = at::zeros({kMostKept, 4}, state_.options());
}

at::Tensor SpikeWatch::Step(const at::Tensor& sums) {
  at::NoGradGuard no_grad;
  const at::Tensor loss = sums[kLossSum].to(at::kDouble) / sums[kWeight].to(at::kDouble);  // 0 / 0 is not finite
  const at::Tensor count = state_[kLosses], mean = state_[kMean], variance = state_[kVariance];
  const at::Tensor counts = loss.isfinite(), deviation = variance.sqrt(), bound = mean + factor_ * deviation;
  const at::Tensor is_spike = counts.logical_and(count >= kWindow).logical_and(loss > bound);

  const at::Tensor slot = state_.slice(0, kSpikes, kSpikes + 1).to(at::kLong).clamp_max(kMostKept - 1);
  const at::Tensor kept = spikes_.index_select(0, slot), steps = state_[kStepsSeen] + 1;
  const at::Tensor row = at::stack({steps, loss, mean, deviation}).unsqueeze(0);
  spikes_.index_copy_(0, slot, at::where(is_spike.logical_and(state_[kSpikes] < kMostKept), row, kept));

  const at::Tensor distance = at::where(is_spike, bound, loss) - mean;
  const at::Tensor share = (count + 1).clamp_max(static_cast<double>(kWindow)).reciprocal();
  const at::Tensor next_mean = mean + share * distance;
  const at::Tensor next_variance = (1 - share) * (variance + share * distance.square());
  state_.copy_(at::stack({count + counts, at::where(counts, next_mean, mean),
                          at::where(counts, next_variance, variance), steps, state_[kSpikes] + is_spike}));
  return is_spike.to(at::kFloat);
}

std::vector<Spike> SpikeWatch::Take(int64_t step) {
  const at::Tensor state = state_.cpu();
  const int64_t count = std::min(std::llround(state[kSpikes].item<double>()), static_cast<long long>(kMostKept));
  if (count == 0) return {};
  const at::Tensor rows = spikes_.cpu();
  std::vector<Spike> spikes;
  for (int64_t i = 0; i < count; ++i) {
    const double* row = rows[i].const_data_ptr<double>();
    const int64_t ago = std::llround(state[kStepsSeen].item<double>() - row[0]);
    spikes.push_back({.step = step - ago, .loss = row[1], .mean = row[2], .deviation = row[3]});
  }
  state_[kSpikes].zero_();
  return spikes;
}

LossStatistics SpikeWatch::Losses() const {
  const at::Tensor state = state_.cpu();
  return {.count = std::llround(state[kLosses].item<double>()),
          .mean = state[kMean].item<double>(),
          .variance = state[kVariance].item<double>()};
}

}  // namespace dtrain::loop
