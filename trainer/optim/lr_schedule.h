// The learning rate as a pure function of the number of steps done.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/config/config.h"

namespace dtrain::optim {

// --lr_schedule and its companions, with what the plan of a run makes of them.
struct LrSchedule {
  config::ScheduleConfig flags = {};
  double peak = 0.1;
  // W, and T, the steps at which the warmup and the schedule end; whole numbers unless the rate changes per epoch.
  double warmup_steps = 0, total_steps = 1;
  double steps_per_epoch = 1;  // E, which may be fractional
};

// Returns the learning rate of the step that follows s = `steps_done` steps:
//   s < W: start + (peak − start)·min(1, (s + first)/W);   otherwise, with a = s − W and p = min(1, a/(T − W)):
//   poly         end + (peak − end)·(1 − p)^power
//   cosine       end + (peak − end)·(1 + cos πp)/2
//   linear_cosine  peak·((α + 1 − p)·(1 + cos 2π·periods·p)/2 + β), as in TensorFlow's linear_cosine_decay
//   step         peak·factor^⌊a/(E·decay_epochs)⌋, or peak·factor^(the number of E·decay_epochs ≤ a) of several
//   exponential  peak·factor^(a/(E·decay_epochs))
//   wsd          peak before T − D, and then end + (peak − end)·f(q) with q = min(1, (s − T + D)/D) and f(q) = 1 − √q,
//                1 − q or (1 + cos πq)/2, as transformers' get_wsd_schedule; D is wsd_decay, at most T − W
//   constant     peak
// These are the schedules of torch.optim.lr_scheduler in a SequentialLR after a LinearLR, as torchvision's references
// use them. With `through_warmup`, a = s and p = s/T, as in timm.scheduler without warmup_prefix and in TensorFlow.
// With `per_epoch`, s is the place at which the epoch of the next step began, as where schedulers are stepped once an
// epoch. `first` is 0; with `warmup_from_one` it is 1, or E, as in NVIDIA's and Horovod's programs. Throws
// std::invalid_argument for an unknown name.
double LearningRate(const LrSchedule& schedule, int64_t steps_done);

// Floors and ceilings of products and quotients of numbers that people write with a few decimals. In floating point
// 0.29 · 100 and 55 / (1.1 · 25) are slightly below 29 and 2. So a value within a few rounding errors of a whole number
// counts as that number. The tolerance is relative, so that it suits short runs and long ones. Four rounded operations
// are off by 4.5e-16 at most, and a quotient of realistic numbers of samples that is no whole number is much farther
// away from one than 2e-15.
inline constexpr double kTolerance = 2e-15;
inline double WholePart(double value) { return std::floor(value * (1 + kTolerance)); }
inline double NextWhole(double value) { return std::ceil(value * (1 - kTolerance)); }

}  // namespace dtrain::optim
