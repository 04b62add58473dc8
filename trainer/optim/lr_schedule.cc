// No state: a resumed run has the learning rate of its step, whatever happened before.
#include "trainer/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "trainer/optim/whole_part.h"

namespace dtrain::optim {

double LearningRate(const LrScheduleOptions& o, int64_t steps_done) {
  const auto s = static_cast<double>(steps_done);
  const auto warmup = static_cast<double>(o.warmup_steps);
  if (s < warmup) return o.warmup_start + (o.peak - o.warmup_start) * s / warmup;

  const double after = s - warmup;
  const double length = static_cast<double>(o.total_steps) - warmup;
  const double progress = length > 0 ? std::min(1.0, after / length) : 1.0;
  if (o.name == "poly") return o.end + (o.peak - o.end) * std::pow(1 - progress, o.poly_power);
  if (o.name == "cosine") return o.end + (o.peak - o.end) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  if (o.name == "step") return o.peak * std::pow(o.decay_factor, WholePart(after / o.decay_steps));
  if (o.name == "exponential") return o.peak * std::pow(o.decay_factor, after / o.decay_steps);
  if (o.name == "constant") return o.peak;
  throw std::invalid_argument("no learning rate schedule is called '" + o.name + "'");
}

}  // namespace dtrain::optim
