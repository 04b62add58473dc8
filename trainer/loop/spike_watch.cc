#include "trainer/loop/spike_watch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "trainer/loop/step_computation.h"

namespace dtrain::loop {
namespace {

// kStepsSeen counts the steps of this object, kSpikes those of them that are spikes and have not been taken.
enum WatchState { kLosses, kMean, kVariance, kStepsSeen, kSpikes, kNumWatchStates };

}  // namespace

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
