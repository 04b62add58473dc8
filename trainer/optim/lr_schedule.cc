// The schedule has no state, so a resumed run has the learning rate of its step, whatever happened before.
#include "trainer/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace dtrain::optim {
namespace {

double DecaysDone(const LrSchedule& schedule, double steps) {
  const std::vector<double>& epochs = schedule.flags.decay_epochs;
  if (epochs.size() == 1) return WholePart(steps / (epochs.front() * schedule.steps_per_epoch));
  return static_cast<double>(std::ranges::count_if(
      epochs, [&](double epoch) { return epoch * schedule.steps_per_epoch * (1 - kTolerance) <= steps; }));
}

// The part of the way from the end to the peak at which wsd is after `steps`.
double PartBeforeDecayEnds(const LrSchedule& schedule, double steps) {
  const config::ScheduleConfig& o = schedule.flags;
  const double wanted = o.wsd_decay < 1 ? o.wsd_decay * schedule.total_steps : o.wsd_decay;
  const double length = std::min(wanted, schedule.total_steps - schedule.warmup_steps);
  if (steps >= schedule.total_steps) return 0;
  const double done = std::max(0.0, (steps - schedule.total_steps) / length + 1);
  if (o.wsd_form == "cosine") return (1 + std::cos(std::numbers::pi * done)) / 2;
  return 1 - (o.wsd_form == "sqrt" ? std::sqrt(done) : done);
}

}  // namespace

double LearningRate(const LrSchedule& schedule, int64_t steps_done) {
  const config::ScheduleConfig& o = schedule.flags;
  const double peak = schedule.peak, warmup = schedule.warmup_steps, epoch = schedule.steps_per_epoch;
  const auto done = static_cast<double>(steps_done);
  const double s = o.per_epoch ? WholePart(done / epoch) * epoch : done;
  if (s < warmup) {
    const double first = !o.warmup_from_one ? 0 : o.per_epoch ? epoch : 1;
    return o.warmup_start_lr + (peak - o.warmup_start_lr) * std::min(1.0, (s + first) / warmup);
  }
  const double before = o.through_warmup ? 0 : warmup;
  const double after = s - before;
  const double length = schedule.total_steps - before;
  const double progress = length > 0 ? std::min(1.0, after / length) : 1.0;
  if (o.name == "poly") return o.end_lr + (peak - o.end_lr) * std::pow(1 - progress, o.poly_power);
  if (o.name == "cosine") return o.end_lr + (peak - o.end_lr) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  if (o.name == "linear_cosine") {
    const double wave = (1 + std::cos(2 * std::numbers::pi * o.cosine_periods * progress)) / 2;
    return peak * ((o.cosine_alpha + 1 - progress) * wave + o.cosine_beta);
  }
  if (o.name == "wsd") return o.end_lr + (peak - o.end_lr) * PartBeforeDecayEnds(schedule, s);
  if (o.name == "step") return peak * std::pow(o.decay_factor, DecaysDone(schedule, after));
  if (o.name == "exponential") return peak * std::pow(o.decay_factor, after / (o.decay_epochs.front() * epoch));
  if (o.name == "constant") return peak;
  throw std::invalid_argument("no learning rate schedule is called '" + o.name + "'");
}

}  // namespace dtrain::optim
